"""Tokenizers without tokens for some bytes or letters: what they lose is measured, and restored."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.vocabulary.bpe import read_bpe
from lexigraft.vocabulary.expand import expand_tokenizer, expanded_sizes, new_token_ids
from lexigraft.vocabulary.token_bytes import byte_alphabet, lost_text
from lexigraft.vocabulary.tokenizer_settings import fast_tokenizer, settings_of


def without_bytes(tokenizer, lost):
    """A BPE tokenizer without the tokens that contain one of these bytes."""
    bpe = read_bpe(tokenizer)
    if bpe.byte_level:
        letters = {letter for letter, byte in byte_alphabet().items() if byte in lost}
        removed = {token for token in bpe.mergeable if not letters.isdisjoint(token)}
    else:
        removed = {f"<0x{byte:02X}>" for byte in lost}
    return fast_tokenizer(bpe.without(removed), settings_of(tokenizer))


BYTES = {
    "continuation bytes": range(0x80, 0xC0),
    "a third of all above ASCII": range(0x80, 0x100, 3),
    "the bytes of one letter": "అ".encode(),
    "all above ASCII": range(0x80, 0x100),
}
LOSSY = [(source, bytes_) for source in ("smollm2_cut", "mistral_cut") for bytes_ in BYTES]


@pytest.fixture
def lossy(request):
    source, lost = request.param
    return without_bytes(request.getfixturevalue(source), set(BYTES[lost]))


@pytest.mark.parametrize("lossy", LOSSY, indirect=True, ids="-".join)
def test_an_expansion_loses_nothing_of_its_corpus(lossy, telugu):
    assert lost_text(lossy, telugu) > 0
    target = expand_tokenizer(lossy, telugu, 150)
    assert len(new_token_ids(lossy, target)) == 150
    assert lost_text(target, telugu) == 0
    assert [target.decode(ids) for ids in target(telugu, add_special_tokens=False).input_ids] == (
        telugu
    )


def test_missing_bytes_count_as_new_tokens(smollm2_cut, telugu):
    lossy = without_bytes(smollm2_cut, set(range(0x80, 0x100)))
    missing = len({byte for text in telugu for byte in text.encode() if byte >= 0x80})
    with pytest.raises(UserError, match=f"no tokens for {missing} of the byte values in the text"):
        expand_tokenizer(lossy, telugu, missing - 1)
    assert lost_text(expand_tokenizer(lossy, telugu, missing), telugu) == 0
    sizes = [size for size, _ in expanded_sizes(lossy, telugu, [missing - 1, missing + 9])]
    assert sizes == [missing + 9]


PIECES = ["t", "h", "e", "the"]
MODELS = {
    "bpe": models.BPE({p: i for i, p in enumerate(PIECES)}, []),
    "bpe with an unknown token": models.BPE(
        {p: i for i, p in enumerate(["<unk>", *PIECES])}, [], unk_token="<unk>"
    ),
    "unigram": models.Unigram([("<unk>", 0.0), *((p, -1.0) for p in PIECES)], unk_id=0),
    "wordpiece": models.WordPiece(
        {p: i for i, p in enumerate(["<unk>", *PIECES, "##h", "##e"])}, unk_token="<unk>"
    ),
}


@pytest.mark.parametrize("family", MODELS)
def test_the_share_of_lost_text_counts_letters_without_a_token(family):
    backend = Tokenizer(MODELS[family])
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    unknown = None if family == "bpe" else "<unk>"
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token=unknown)
    assert lost_text(tokenizer, ["the he"]) == 0
    # A WordPiece model replaces the whole word; the last letter has two bytes.
    lost = 5 if family == "wordpiece" else 2
    assert lost_text(tokenizer, ["the theλ"]) == pytest.approx(lost / 8)


@pytest.mark.parametrize("merges", ["append", "auxiliary-first"])
def test_an_expansion_with_auxiliary_merges_loses_nothing_either(merges, smollm2_cut, telugu):
    lossy = without_bytes(smollm2_cut, set(range(0x80, 0x100)))
    target = expand_tokenizer(lossy, telugu, 150, merges=merges)
    assert len(new_token_ids(lossy, target)) == 150
    assert lost_text(target, telugu) == 0
