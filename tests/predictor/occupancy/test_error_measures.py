import pytest

from benchmarks import _error_measures as error_measures
from benchmarks._error_measures import order_preserving_degree, ranking_distance


def test_errors_of_each_prediction():
    predicted, actual = [12.0, 15.0], [10.0, 20.0]
    assert error_measures.absolute_errors(predicted, actual).tolist() == [2.0, 5.0]
    assert error_measures.percentage_errors(predicted, actual) == pytest.approx([20.0, 25.0])


def test_means():
    predicted, actual = [12.0, 15.0], [10.0, 20.0]
    assert error_measures.mape(predicted, actual) == pytest.approx(22.5)
    assert error_measures.nmae(predicted, actual) == pytest.approx(3.5 / 15)
    assert error_measures.mse(predicted, actual) == pytest.approx(14.5)


def test_one_swapped_pair_of_three_breaks_two_of_nine_ordered_pairs():
    assert order_preserving_degree([1, 3, 2], [1, 2, 3]) == pytest.approx(7 / 9)


def test_equal_measurements_must_be_predicted_equal():
    assert order_preserving_degree([1, 2], [5, 5]) == pytest.approx(2 / 4)


def test_ranking_distance_by_hand():
    # True order a b c d; predicted ranks 2 1 4 3.
    predicted, actual = [2, 1, 4, 3], [10, 20, 30, 40]
    assert ranking_distance(predicted, actual, 1) == pytest.approx(1 / 3)
    assert ranking_distance(predicted, actual, 2) == pytest.approx(2 / (3 + 2))


@pytest.mark.parametrize("k", [0, 3])
def test_ranking_more_than_there_are_is_an_error(k):
    with pytest.raises(ValueError, match="candidates"):
        ranking_distance([1.0, 2.0], [1.0, 2.0], k)
