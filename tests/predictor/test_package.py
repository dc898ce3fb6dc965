"""What the package exports."""

import predictor


def test_exported_members():
    assert predictor.__all__ == [
        "Curve",
        "Point",
        "Prediction",
        "PredictionTable",
        "Problem",
        "Run",
        "Verdict",
    ]
    assert all(hasattr(predictor, name) for name in predictor.__all__)
