"""What users write into comments."""

import pytest

from sacct_ingest.text.tag import Tag, parse_tag


@pytest.mark.parametrize(
    ("comment", "tag"),
    [
        ("nimo:app=wrf", Tag("wrf")),
        ("nimo:app=wrf,problem=d02", Tag("wrf", "d02")),
        ("see the wiki; nimo:app=wrf,problem=d02 and so on", Tag("wrf", "d02")),
        ("nimo:off", Tag(off=True)),
        ("nimo:app=wrf,off", Tag("wrf", off=True)),
        ("nimo:colour=red,app=wrf", Tag("wrf")),
        ("nimo:app=a nimo:app=b", Tag("b")),
        ("nimo:", Tag()),
        ("", None),
        ("animo:app=wrf", None),
        ("all about nimo", None),
    ],
)
def test_tags(comment, tag):
    assert parse_tag(comment) == tag


def test_keys():
    assert Tag("wrf", "d02").key == "wrf/d02"
    assert Tag("wrf").key == "wrf"
    assert Tag(problem="d02").key == ""
    assert len(Tag("a" * 500).key) < 255
