"""Another model's tokenizer instead of the source's."""

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from lexigraft.source.document_start import surrounding
from lexigraft.vocabulary.tokenizer_settings import (
    fast_tokenizer,
    set_surrounding,
    settings_of,
    take_tokenizer,
)


def bert():
    """WordPiece with BERT's special tokens, which set_surrounding each text."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "s", "."]
    ids = {token: number for number, token in enumerate(vocabulary)}
    backend = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.add_special_tokens([AddedToken(token, special=True) for token in vocabulary[:5]])
    backend.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]", chat_template="another model's",
    )  # fmt: skip


@pytest.fixture
def with_bos(mistral_tokenizer):
    """Mistral's tokenizer as its model uses it: a text begins with `<s>`."""
    backend = Tokenizer.from_str(mistral_tokenizer.backend_tokenizer.to_str())
    set_surrounding(backend, ["<s>"], [], byte_level=False)
    return fast_tokenizer(backend, settings_of(mistral_tokenizer))


def test_cls_and_sep_are_added_only_if_the_source_adds_such_tokens(with_bos, smollm2_tokenizer):
    assert surrounding(bert()) == (["[CLS]"], ["[SEP]"])
    led, plain = take_tokenizer(bert(), with_bos), take_tokenizer(bert(), smollm2_tokenizer)
    assert (led.bos_token, led.eos_token) == (plain.bos_token, plain.eos_token) == (
        "[CLS]", "[SEP]",
    )  # fmt: skip
    assert led("the cats.")["input_ids"] == [2, 5, 6, 7, 9]
    assert plain("the cats.")["input_ids"] == [5, 6, 7, 9]
    assert led.get_vocab() == bert().get_vocab()
    # The token that begins SmolLM2's texts is also its unknown token, which BERT's is not.
    assert plain.get_vocab() == {**bert().get_vocab(), "<|endoftext|>": 10}


def test_the_chat_template_is_removed(with_bos):
    assert take_tokenizer(bert(), with_bos).chat_template is None


def test_missing_special_tokens_are_added_after_the_last_id(with_bos, smollm2_tokenizer):
    backend = Tokenizer.from_str(smollm2_tokenizer.backend_tokenizer.to_str())
    roles = ("bos_token", "eos_token", "pad_token", "unk_token")
    bare = {k: v for k, v in settings_of(smollm2_tokenizer).items() if k not in roles}
    taken = take_tokenizer(fast_tokenizer(backend, bare), with_bos)
    size = len(smollm2_tokenizer)
    assert (taken.bos_token, taken.bos_token_id) == ("<s>", size)
    assert (taken.eos_token, taken.eos_token_id) == ("</s>", size + 1)
    assert taken("a")["input_ids"] == [size, *smollm2_tokenizer("a")["input_ids"]]


def test_the_source_as_its_own_replacement_is_unchanged(
    mistral_tokenizer, smollm2_tokenizer, lines
):
    for source in (mistral_tokenizer, smollm2_tokenizer):
        taken = take_tokenizer(source, source)
        assert taken.get_vocab() == source.get_vocab()
        assert taken(lines)["input_ids"] == source(lines)["input_ids"]
