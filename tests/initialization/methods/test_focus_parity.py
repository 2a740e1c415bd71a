"""FOCUS against deepfocus, the program of its authors, on real tokenizers of three families."""

import numpy as np
import pytest
import torch

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.initialization.pairing import pair_vocabularies
from lexigraft.initialization.registry import initializer

pytestmark = pytest.mark.usefixtures("fasttext")
H = 16


def theirs_shared(source, target):
    """Target id -> source ids, by deepfocus."""
    from deepfocus.focus import get_overlapping_tokens

    found, _ = get_overlapping_tokens(target, source, False, True, False)
    return {
        token.target.id: [candidate.id for candidate in token.source] for token in found.values()
    }


@pytest.fixture(scope="module", params=["byte-fallback", "unigram", "byte-level"])
def pair(request, small_tokenizer, greek, smollm2_tokenizer, mistral_cut):
    source = mistral_cut if request.param == "byte-level" else smollm2_tokenizer
    return pair_vocabularies(source, small_tokenizer(request.param, greek, 900))


@pytest.fixture(scope="module")
def agreed(pair):
    """Target ids about which both agree: shared with the same source token, or new."""
    theirs = theirs_shared(pair.source_tokenizer, pair.target_tokenizer)
    ids = pair.target_tokenizer.get_vocab().values()
    return {i for i in ids if theirs.get(i, [-1])[0] == pair.source_of[i]}


def test_shared_tokens_are_those_of_deepfocus_except_bytes_spaces_and_special_tokens(pair, agreed):
    special = pair.target_special_ids
    for i in set(pair.target_tokenizer.get_vocab().values()) - agreed - special:
        data = pair.target_bytes[i]
        # deepfocus compares what tokens decode to: parts of characters are all the same to it, as
        # are spaces, and the bytes of a byte-fallback tokenizer are nothing that others have.
        whole = data.decode(errors="ignore").encode() == data
        assert not whole or not data.strip() or len(data) == 1, data
    assert len(agreed) > 0.6 * len(pair.target_bytes)


def test_new_rows_are_those_of_deepfocus(pair, agreed, greek, tmp_path):
    import fasttext
    from deepfocus import FOCUS

    target = pair.target_tokenizer
    kept = agreed - pair.target_special_ids
    text = tmp_path / "tokens.txt"
    encoded = target(greek, add_special_tokens=False)["input_ids"]
    lines = [[i for i in ids if i in kept] for ids in encoded]
    strings = (" ".join(target.convert_ids_to_tokens(ids)) for ids in lines)
    text.write_text("\n".join(strings) + "\n", encoding="utf-8")
    trained = fasttext.train_unsupervised(
        str(text), model="cbow", dim=24, epoch=5, minCount=3, minn=0, maxn=0, thread=1, verbose=0
    )
    trained.save_model(str(tmp_path / "tokens.bin"))
    ids = target.get_vocab()
    tokens = np.array(sorted(ids[word] for word in trained.get_words() if word in ids))
    words = target.convert_ids_to_tokens(tokens.tolist())
    vectors = np.stack([trained.get_word_vector(word) for word in words]).astype(np.float32)

    matrix = np.random.default_rng(0).normal(size=(len(pair.source_bytes), H)).astype(np.float32)
    theirs = FOCUS(
        target_tokenizer=target,
        source_tokenizer=pair.source_tokenizer,
        source_embeddings=torch.from_numpy(matrix),
        fasttext_model_path=str(tmp_path / "tokens.bin"),
        verbosity="silent",
    ).numpy()
    fitted = initializer("focus").fit(
        pair.source_tokenizer, target, auxiliary=TokenVectors(tokens, vectors)
    )
    ours = fitted.apply(matrix)
    compared = np.intersect1d(tokens, list(kept))
    new = np.intersect1d(compared, fitted.new_ids)
    assert len(new) > 100 and fitted.anchors_ > 20
    np.testing.assert_allclose(ours[new], theirs[new], atol=2e-5)
    shared = np.setdiff1d(compared, new)
    np.testing.assert_array_equal(ours[shared], theirs[shared])
