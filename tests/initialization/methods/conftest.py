import pytest


@pytest.fixture
def pair(byte_level):
    """New: `abc` and `de`."""
    return byte_level([("a", "b")]), byte_level([("a", "b"), ("ab", "c"), ("d", "e")])


@pytest.fixture(scope="session")
def many_new(byte_level):
    """A source of 257 tokens, one of them special, and a target with 1,500 tokens more."""
    return byte_level([]), byte_level([("a" + "b" * n, "b") for n in range(1500)])
