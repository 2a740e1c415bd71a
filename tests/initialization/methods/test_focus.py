import numpy as np
import pytest

from lexigraft.auxiliary.fasttext import train_fasttext
from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.initialization.registry import initializer
from lexigraft.vocabulary.expand import expand_tokenizer


def by_definition(pair, auxiliary):
    """Rows [target ids, source ids], token by token, the threshold of sparsemax by halving."""
    held = dict(zip(auxiliary.tokens.tolist(), auxiliary.vectors.astype(float), strict=True))
    anchors = [i for i in held if i in pair.source_ids and i not in pair.source_special_ids]
    rows = {}
    for new in pair.new_ids.tolist():
        if new in held:
            a = held[new]
            scores = np.array(
                [a @ b / np.sqrt((a @ a) * (b @ b)) for b in (held[i] for i in anchors)]
            )
            low, high = -2.0, 1.0
            for _ in range(60):
                middle = (low + high) / 2
                enough = np.maximum(scores - middle, 0).sum() > 1
                low, high = (middle, high) if enough else (low, middle)
            rows[new] = np.zeros(pair.n_source)
            rows[new][anchors] = np.maximum(scores - low, 0)
    return rows


def test_similarities_become_weights_by_sparsemax(pair, token_vectors, row):
    # Cosines with abc: 1, 0.8, 0.6, and -1, which is too far below the others to count.
    by_token = {"abc": (2, 0), "x": (0.1, 0), "y": (4, 3), "z": (3, 4), "w": (-1, 0)}
    fitted = initializer("focus").fit(*pair, auxiliary=token_vectors(pair[1], by_token))
    assert row(fitted, "abc") == pytest.approx({"x": 8 / 15, "y": 1 / 3, "z": 2 / 15}, abs=1e-6)
    assert fitted.statistics()["anchors"] == 4


def test_bytes_of_another_family_are_no_anchors(byte_level, byte_fallback, token_vectors, row):
    source = byte_level([("a", "b")])
    target = byte_fallback([("b", "c")])
    by_token = {"bc": (1, 0), "<0xC3>": (1, 0.1), "a": (0, 1), "<0x0A>": (0.9, 0)}
    vectors = token_vectors(target, by_token)
    assert row(initializer("focus").fit(source, target, auxiliary=vectors), "bc") == {"a": 1.0}
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


def test_a_token_that_is_much_nearer_than_others_is_copied(pair, token_vectors, row):
    by_token = {"abc": (1, 0), "x": (3, 0), "y": (0, 1), "z": (-1, 1)}
    fitted = initializer("focus").fit(*pair, auxiliary=token_vectors(pair[1], by_token))
    assert row(fitted, "abc") == {"x": 1.0}
    assert fitted.statistics()["share_copy"] == 0.5


@pytest.mark.parametrize("source", ["smollm2_cut", "mistral_cut"])
def test_on_real_text_it_equals_the_definition(source, request, greek, fasttext):
    source = request.getfixturevalue(source)
    target = expand_tokenizer(source, greek, 60)
    auxiliary = train_fasttext(target, greek, dimensions=20, epochs=40, minimum_count=5)
    fitted = initializer("focus").fit(source, target, corpus=greek, auxiliary=auxiliary)
    expected = by_definition(fitted.pair_, auxiliary)
    found = fitted.weights_
    for token, weights in expected.items():
        np.testing.assert_allclose(found[[token]].toarray()[0], weights, atol=1e-5)
    assert len(expected) + len(fitted.fallbacks_) == 60
    assert len(expected) > 40
    statistics = fitted.statistics()
    assert statistics["share_in_hull"] == 1.0
    assert 1 < statistics["mean_nonzeros"] < statistics["anchors"]
