"""Every method, from each family of tokenizers to each other one, on real text."""

import unicodedata

import numpy as np
import pytest

from lexigraft.auxiliary.fasttext import train_fasttext
from lexigraft.errors import UserError
from lexigraft.initialization.decomposition import decompose
from lexigraft.initialization.pairing import pair_vocabularies
from lexigraft.initialization.registry import initializer

FAMILIES = ("byte-level", "byte-fallback", "unigram", "wordpiece")


@pytest.fixture(scope="module")
def sources(small_tokenizer, english):
    return {family: small_tokenizer(family, english, 900) for family in FAMILIES}


@pytest.fixture(scope="module")
def targets(small_tokenizer, greek):
    return {family: small_tokenizer(family, greek, 700) for family in FAMILIES}


@pytest.fixture(scope="module")
def vectors(targets, greek, fasttext):
    """fastText vectors of each target's tokens."""
    return {
        family: train_fasttext(target, greek, dimensions=8, minimum_count=3)
        for family, target in targets.items()
    }


@pytest.fixture(scope="module", params=FAMILIES)
def source(request, sources):
    return sources[request.param]


@pytest.fixture(scope="module", params=FAMILIES)
def target(request, targets):
    return targets[request.param]


@pytest.fixture(scope="module")
def pair(source, target):
    return pair_vocabularies(source, target)


def test_shared_tokens_have_equal_bytes_and_new_tokens_have_other_bytes(pair):
    shared = pair.shared_ids.tolist()
    assert len(shared) > 20
    for i in shared:
        assert pair.target_bytes[i] == pair.source_bytes[pair.source_of[i]]
    ordinary = set(pair.source_ids.tolist()) - pair.source_special_ids
    known = {pair.source_bytes[i] for i in ordinary}
    new = set(pair.new_ids.tolist()) - pair.target_special_ids
    assert not known & {pair.target_bytes[i] for i in new}


def test_pieces_make_up_the_token(pair):
    known = {piece for piece in pair.source_bytes if len(piece) == 1}
    for i, pieces in zip(pair.new_ids, decompose(pair, pair.new_ids.tolist()), strict=True):
        joined = b"".join(pair.source_bytes[piece] for piece in pieces)
        token = pair.target_bytes[i]
        if i in pair.target_special_ids:
            assert joined == b""
        elif len(known) >= 256 - 13:  # all bytes that text can hold
            assert joined == token
        else:  # what of it the source knows, as its normalizer has it
            text = unicodedata.normalize("NFKC", token.decode(errors="ignore")).lower()
            assert set(joined.decode().lower()) <= {" ", *text}


# Pieces depend on both families; other methods see each family once on either side.
@pytest.mark.parametrize(
    ("name", "source_family", "target_family"),
    [
        *(("mean", source, target) for source in FAMILIES for target in FAMILIES),
        *(
            (name, source, FAMILIES[(index + shift) % 4])
            for shift, name in enumerate(("merge", "align", "focus", "mean-of-all", "permutation"))
            for index, source in enumerate(FAMILIES)
        ),
    ],
)
def test_new_rows_are_convex_and_shared_rows_are_copies(
    sources, targets, vectors, greek, matrix, name, source_family, target_family
):
    source, target = sources[source_family], targets[target_family]
    auxiliary = vectors[target_family] if name == "focus" else None
    rows = matrix(len(source) + 3)
    fit = initializer(name).fit
    options = {"corpus": greek, "n_source": len(rows), "auxiliary": auxiliary}
    if name == "merge" and type(target.backend_tokenizer.model).__name__ != "BPE":
        with pytest.raises(UserError, match="no merge rules"):
            fit(source, target, **options)
        return
    fitted = fit(source, target, **options)
    made = fitted.apply(rows)
    assert made.shape == (len(target), rows.shape[1])
    shared = fitted.pair_.shared_ids
    np.testing.assert_array_equal(made[shared], rows[fitted.source_of[shared]])
    weights = fitted.weights_
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)
    assert (weights.data >= 0).all()
    if name != "mean-of-all":
        fallbacks = target.convert_tokens_to_ids(fitted.fallbacks_)
        used = weights[np.setdiff1d(fitted.new_ids, fallbacks)].indices
        assert not np.isin(used, list(fitted.pair_.source_special_ids)).any()
