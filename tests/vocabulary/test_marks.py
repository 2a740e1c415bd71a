"""Words with combining marks: what pre-tokenizers do with them, and tokens of joined ones."""

import logging
import unicodedata
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer

import lexigraft
from lexigraft.errors import UserError
from lexigraft.vocabulary.expand import expand_tokenizer, new_token_ids
from lexigraft.vocabulary.marks import cuts_at_marks, is_in_marked_script, pre_tokenization
from lexigraft.vocabulary.token_bytes import token_bytes
from lexigraft.vocabulary.tokenizer_files import describe_vocabulary, save_tokenizer

K = 150
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA_3.replace("{1,3}", "")
EMOJI = [
    "❤️", " I ❤️ you‼️", "1️⃣2️⃣", "👨‍👩‍👧‍👦 👍🏽", "😶‍🌫️😶‍🌫️", "🏳️‍🌈", "☀️\ufe0e ✈︎", "🇩🇪 ©️ ™️",
]  # fmt: skip
WHITE_SPACE = ["  two  spaces ", "a\t\tb\n\n  c\r\n", "\u00a0x\u2003", "it's WE'LL o'clock's", ""]


def with_byte_level(*steps):
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not steps)
    return pre_tokenizers.Sequence([*steps, last])


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


PRE_TOKENIZERS = {
    "gpt-2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "digits": pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    ),
    "llama-3": with_byte_level(split(LLAMA_3)),
    "qwen": with_byte_level(split(QWEN)),
}
each = pytest.mark.parametrize("name", PRE_TOKENIZERS)


def pipeline(pre_tokenizer):
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizer
    return backend


def joined(pre_tokenizer):
    return pre_tokenization(pipeline(pre_tokenizer), "joined", [])


def cut(backend, text):
    """The text between the cuts of a pre-tokenizer."""
    pieces = backend.pre_tokenizer.pre_tokenize_str(text)
    return [text[begin:end] for _, (begin, end) in pieces]


def is_marked(text):
    return any(unicodedata.category(character)[0] == "M" for character in text)


@pytest.fixture(scope="module")
def mark_free(english, greek):
    """Sentences, Python code, white space: without a combining mark."""
    code = [file.read_text() for file in Path(lexigraft.__file__).parent.glob("*.py")]
    return [text for text in (*english, *greek, *code, *WHITE_SPACE) if not is_marked(text)]


@each
def test_text_without_marks_is_split_as_before(name, mark_free):
    before, after = pipeline(PRE_TOKENIZERS[name]), joined(PRE_TOKENIZERS[name])
    assert len(mark_free) > 800
    for text in mark_free:
        assert after.pre_tokenizer.pre_tokenize_str(text) == (
            before.pre_tokenizer.pre_tokenize_str(text)
        )


@each
def test_marks_without_a_letter_are_split_as_before(name):
    before, after = pipeline(PRE_TOKENIZERS[name]), joined(PRE_TOKENIZERS[name])
    for text in (*EMOJI, "\u0301 a", "12\u0301", "-\u0c3e-"):
        assert cut(after, text) == cut(before, text)


@pytest.mark.parametrize(
    ("text", "apart", "together"),
    [
        ("తెలుగు భాష!", ["త", "ె", "ల", "ు", "గ", "ు", " భ", "ా", "ష", "!"], ["తెలుగు", " భాష", "!"]),
        ("မြန်မာ၊", ["မ", "ြ", "န", "်", "မ", "ာ၊"], ["မြန်မာ", "၊"]),
        # A joiner after a mark belongs to the word, one after a letter does not.
        ("ශ්\u200dරී", ["ශ", "්\u200d", "ර", "ී"], ["ශ්\u200dරී"]),
        ("می\u200cرود", ["می", "\u200c", "رود"], ["می", "\u200c", "رود"]),
        ("cafe\u0301s", ["cafe", "\u0301", "s"], ["cafe\u0301s"]),
    ],
)
def test_letters_are_joined_with_their_marks(text, apart, together):
    assert cut(pipeline(PRE_TOKENIZERS["gpt-2"]), text) == apart
    assert cut(joined(PRE_TOKENIZERS["gpt-2"]), text) == together


@pytest.mark.parametrize(
    "pre_tokenizer",
    [
        pre_tokenizers.ByteLevel(add_prefix_space=True),
        with_byte_level(split(r" ?[\p{Lu}\p{Ll}\p{Lo}]+|[^\p{L}]")),
    ],
    ids=["prefix-space", "other-pattern"],
)
def test_pre_tokenizers_that_cannot_be_changed_are_refused_or_unchanged(
    pre_tokenizer, telugu, caplog
):
    backend = pipeline(pre_tokenizer)
    with pytest.raises(UserError, match=r"cannot be changed .*; set marks: apart"):
        pre_tokenization(backend, "joined", telugu)
    with caplog.at_level(logging.WARNING):
        left = pre_tokenization(backend, "auto", telugu)
    assert "cannot be changed" in caplog.text
    assert left.to_str() == backend.to_str()


def test_with_auto_the_text_determines_whether_marks_are_joined(telugu, burmese, greek, english):
    backend = pipeline(PRE_TOKENIZERS["gpt-2"])
    for texts, marked in ((telugu, True), (burmese, True), (greek, False), (english, False)):
        assert is_in_marked_script(texts) is marked
        assert cuts_at_marks(pre_tokenization(backend, "auto", texts)) is not marked
    assert cuts_at_marks(pre_tokenization(backend, "apart", telugu))


# ---- expansions ---------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["telugu", "burmese"])
def expansions(request, smollm2_cut):
    """The texts, and SmolLM2's tokenizer expanded with marks apart and joined."""
    texts = request.getfixturevalue(request.param)[:200]
    return texts, *(
        expand_tokenizer(smollm2_cut, texts, K, marks=marks) for marks in ("apart", "auto")
    )


def encoded(tokenizer, texts):
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def new_texts(source, target):
    data = token_bytes(target)
    return [data[number].decode(errors="ignore") for number in new_token_ids(source, target)]


def has_letter_with_mark(text):
    kinds = "".join(unicodedata.category(character)[0] for character in text)
    return "LM" in kinds


def test_only_with_joined_marks_tokens_contain_letters_with_marks(expansions, smollm2_cut):
    _, apart, together = expansions
    assert not any(map(has_letter_with_mark, new_texts(smollm2_cut, apart)))
    assert sum(map(has_letter_with_mark, new_texts(smollm2_cut, together))) > K / 10
    for target, marks in ((apart, "apart"), (together, "joined")):
        assert describe_vocabulary("expand", smollm2_cut, target)["marks"] == marks


def test_joined_tokenizers_keep_old_ids_and_english(expansions, smollm2_cut, mark_free):
    *_, together = expansions
    vocab = together.get_vocab()
    assert all(vocab[token] == number for token, number in smollm2_cut.get_vocab().items())
    texts = [*mark_free, *EMOJI]
    assert encoded(together, texts) == encoded(smollm2_cut, texts)


def test_joined_tokenizers_restore_every_text(expansions, lines):
    *_, together = expansions
    texts = [*lines, *EMOJI, "ශ්\u200dරී ලංකා", "हिन्दी", "e\u0301\u0301", "\u0301"]
    ids = encoded(together, texts)
    assert together.batch_decode(ids, clean_up_tokenization_spaces=False) == texts


@each
def test_words_of_scripts_with_marks_are_not_split(name, telugu):
    after = joined(PRE_TOKENIZERS[name])
    for text in telugu:
        ends = {end for _, (_, end) in after.pre_tokenizer.pre_tokenize_str(text)}
        letters = [unicodedata.category(character)[0] in "LM" for character in text]
        assert not any(letters[end - 1] and letters[end] for end in ends if end < len(text))


def test_a_saved_tokenizer_is_read_by_transformers(expansions, tmp_path):
    texts, _, together = expansions
    save_tokenizer(together, tmp_path, samples=texts)
    assert encoded(AutoTokenizer.from_pretrained(tmp_path), texts) == encoded(together, texts)
