"""New rows of the source's mean norm, in each matrix by itself."""

import numpy as np
import pytest
import torch

from lexigraft.initialization.graft import graft
from lexigraft.initialization.registry import initializer


@pytest.fixture(scope="module")
def tokenizers(byte_level):
    return byte_level([("a", "b")]), byte_level([("a", "b"), ("ab", "c"), ("d", "e")])


@pytest.fixture(scope="module")
def matrices(tokenizers):
    """Input and head with a padding row, which counts for no norm; the head's rows are longer."""
    rng, rows = np.random.default_rng(0), len(tokenizers[0]) + 1
    made = rng.normal(size=(2, rows, 6)).astype(np.float32) * [[[1.0]], [[5.0]]]
    made[:, -1] = 1000
    return dict(zip(("input", "output"), made.astype(np.float32), strict=True))


def fit(tokenizers, name="mean", **options):
    return initializer(name, source_norm=True, **options).fit(
        *tokenizers, n_source=len(tokenizers[0]) + 1
    )


def test_new_rows_keep_their_direction_and_have_the_mean_norm(tokenizers, matrices):
    plain = initializer("mean").fit(*tokenizers, n_source=len(tokenizers[0]) + 1)
    fitted, new = fit(tokenizers), plain.new_ids
    for which, matrix in matrices.items():
        wanted = np.linalg.norm(matrix[:-1], axis=1).mean()
        made, before = fitted.apply(matrix, which), plain.apply(matrix, which)
        expected = before[new] / np.linalg.norm(before[new], axis=1, keepdims=True) * wanted
        np.testing.assert_allclose(made[new], expected, rtol=1e-5)
        old = np.setdiff1d(np.arange(len(made)), new)
        assert np.array_equal(made[old], before[old])
        half = fitted.apply(torch.from_numpy(matrix).bfloat16(), which)
        assert half.dtype == torch.bfloat16
        np.testing.assert_allclose(half.float()[new], expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("without_vector", ["pieces", "random"])
def test_after_a_projection_rows_lie_in_its_space(
    tokenizers, matrices, random_vectors, without_vector
):
    # The source has no vectors for the target's last token, `de`.
    vectors = {"source": random_vectors(tokenizers[0]), "target": random_vectors(tokenizers[1])}
    target = vectors["target"]
    vectors["target"] = type(target)(target.tokens[:-1], target.vectors[:-1])
    made = [
        initializer("ofa", dimensions=2, without_vector=without_vector, **options).fit(
            *tokenizers, n_source=len(tokenizers[0]) + 1, auxiliary=vectors
        )
        for options in ({}, {"source_norm": True})
    ]
    assert made[0].fallbacks_ == ["de"]
    plain, scaled = (each.apply(matrices["input"])[each.new_ids] for each in made)
    assert np.linalg.matrix_rank(plain, tol=1e-4) == 2
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    wanted = np.linalg.norm(matrices["input"][:-1], axis=1).mean()
    np.testing.assert_allclose(scaled, plain / lengths * wanted, rtol=1e-4, atol=1e-5)


def test_a_bias_of_the_head_is_not_scaled(tokenizers, tiny_llama):
    model = tiny_llama(len(tokenizers[0]) + 1, tied=False)
    head = torch.nn.Linear(*reversed(model.lm_head.weight.shape))
    model.lm_head = head
    biases = head.bias.detach().clone()
    plain = initializer("mean").fit(*tokenizers, n_source=len(tokenizers[0]) + 1)
    grafted = graft(model, tokenizers[1], fit(tokenizers))
    expected = plain.apply(biases[:, None])[:, 0]
    torch.testing.assert_close(grafted.lm_head.bias.detach(), expected)
