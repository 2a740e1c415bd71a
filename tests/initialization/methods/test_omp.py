import numpy as np
import pytest

from lexigraft.initialization.registry import initializer
from lexigraft.vocabulary.expand import expand_tokenizer


@pytest.fixture
def fit(pair, token_vectors):
    """`fit({"abc": …}, **options)`: rows of the donor, options."""

    def run(rows, **options):
        donor = {"plm": token_vectors(pair[1], rows)}
        return initializer("omp", **options).fit(*pair, auxiliary=donor)

    return run


def test_a_token_has_the_weights_that_reconstruct_it_in_the_donor(fit, row):
    donor = {"abc": (4, 3, 1), "x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1)}
    fitted = fit(donor, atoms=2)
    assert row(fitted, "abc") == pytest.approx({"x": 4, "y": 3})
    assert fitted.unexplained_ == pytest.approx(1 / 26)
    assert fitted.statistics()["anchors"] == 3


@pytest.mark.parametrize(
    "source, mode",
    [
        ("smollm2_cut", "expand"),
        ("mistral_cut", "expand"),
        ("smollm2_cut", "replace"),
    ],
)
def test_on_real_tokenizers_rows_equal_mergekit(
    source, mode, request, greek, bert_cut, random_vectors, matrix
):
    import torch
    from mergekit.tokensurgeon import batch_omp

    source = request.getfixturevalue(source)
    target = expand_tokenizer(source, greek, 40) if mode == "expand" else bert_cut
    donor = random_vectors(target, 32)
    fitted = initializer("omp", atoms=8).fit(source, target, auxiliary={"plm": donor})
    rows, pair = matrix(len(source), 12), fitted.pair_
    new = pair.new_ids[:100]
    chosen, weights = batch_omp(
        torch.from_numpy(donor.vectors[new]).double(),
        torch.from_numpy(donor.vectors[pair.shared_ids]).double(),
        8,
    )
    sources = pair.source_of[pair.shared_ids[chosen.numpy()]]
    expected = np.einsum("nk,nkd->nd", weights.numpy(), rows[sources])
    np.testing.assert_allclose(fitted.apply(rows)[new], expected, atol=1e-3)
    assert fitted.fallbacks_ == []
