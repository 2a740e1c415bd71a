import pytest


@pytest.fixture
def pair(byte_level):
    """New: `abc` and `de`."""
    return byte_level([("a", "b")]), byte_level([("a", "b"), ("ab", "c"), ("d", "e")])
