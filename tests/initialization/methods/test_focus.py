import numpy as np
import pytest

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.initialization.registry import initializer


def test_similarities_become_weights_by_sparsemax(pair, token_vectors, row):
    # Cosines with abc: 1, 0.8, 0.6, and -1, which is too far below the others to count.
    by_token = {"abc": (2, 0), "x": (0.1, 0), "y": (4, 3), "z": (3, 4), "w": (-1, 0)}
    fitted = initializer("focus").fit(*pair, auxiliary=token_vectors(pair[1], by_token))
    assert row(fitted, "abc") == pytest.approx({"x": 8 / 15, "y": 1 / 3, "z": 2 / 15}, abs=1e-6)
    assert fitted.statistics()["anchors"] == 4


def test_bytes_of_another_family_are_anchors_only_with_the_option(
    byte_level, byte_fallback, token_vectors, row
):
    source = byte_level([("a", "b")])
    target = byte_fallback([("b", "c")])
    by_token = {"bc": (1, 0), "<0xC3>": (1, 0.1), "a": (0, 1), "<0x0A>": (0.9, 0)}
    vectors = token_vectors(target, by_token)
    assert row(initializer("focus").fit(source, target, auxiliary=vectors), "bc") == {"a": 1.0}
    fitted = initializer("focus", byte_anchors=True).fit(source, target, auxiliary=vectors)
    assert fitted.anchors_ == 3
    assert "a" not in row(fitted, "bc")
    # Within a family both are the same piece.
    alike = initializer("focus").fit(byte_fallback([]), target, auxiliary=vectors)
    assert alike.anchors_ == 3


@pytest.mark.bad_input(
    "vectors",
    "vectors of another tokenizer, or of different dimensions",
    "a one-line error message says which",
)
def test_vectors_of_another_tokenizer_are_refused(pair):
    other = TokenVectors(np.array([10**6]), np.ones((1, 2), np.float32))
    with pytest.raises(UserError, match="vectors computed with this tokenizer"):
        initializer("focus").fit(*pair, auxiliary=other)
