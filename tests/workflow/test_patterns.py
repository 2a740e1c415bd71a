import re

from workflow.patterns import any_of


def test_a_pattern_fits_its_names_and_nothing_else():
    assert [
        name for name in ("a.b", "axb", "c", "") if re.fullmatch(any_of(["a.b", "c"]), name)
    ] == [
        "a.b",
        "c",
    ]


def test_of_no_names_it_fits_nothing():
    assert not any(re.fullmatch(any_of([]), name) for name in ("", "a"))
