"""Trained tokenizers: lossless, of the exact size, with the source's special tokens."""

from collections import Counter
from itertools import pairwise

import pytest
import sentencepiece
from tokenizers import models
from transformers import AutoTokenizer

from lexigraft import UserError, train_tokenizer
from lexigraft.source.document_start import surrounding
from lexigraft.vocabulary.bpe import read_bpe
from lexigraft.vocabulary.token_bytes import piece_bytes, pre_tokens, special_ids, token_bytes
from lexigraft.vocabulary.tokenizer_files import save_tokenizer
from lexigraft.vocabulary.tokenizer_settings import fast_tokenizer, set_surrounding, settings_of
from lexigraft.vocabulary.train import FAMILIES, train_family

SIZE = 900
SMALL = 700  # what one of the two languages fills
SENTENCEPIECE = FAMILIES[:2]


@pytest.fixture(scope="module")
def trained(telugu, greek, smollm2_cut):
    """One tokenizer of each family for SmolLM2."""
    corpus = [*telugu[:300], *greek[:300]]
    return {family: train_family(corpus, family, SIZE, smollm2_cut) for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
def test_decoding_restores_every_text_without_unknown_tokens(family, trained, lines):
    tokenizer = trained[family][0]
    ids = tokenizer(lines, add_special_tokens=False)["input_ids"]
    assert [tokenizer.decode(row) for row in ids] == lines
    assert not set(special_ids(tokenizer)) & {number for row in ids for number in row}


@pytest.mark.parametrize("family", FAMILIES)
def test_special_tokens_are_those_of_the_source(family, trained, smollm2_cut):
    tokenizer = trained[family][0]
    for role in ("bos_token", "eos_token", "pad_token"):
        assert getattr(tokenizer, role) == getattr(smollm2_cut, role)
    assert tokenizer.chat_template == smollm2_cut.chat_template
    special = {smollm2_cut.convert_ids_to_tokens(i) for i in special_ids(smollm2_cut)}
    ours = {tokenizer.convert_ids_to_tokens(i) for i in special_ids(tokenizer)}
    assert ours - {"<unk>"} == special - {"<unk>"}
    first = tokenizer(f"{tokenizer.eos_token}a")["input_ids"][0]
    assert first == tokenizer.eos_token_id


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_begin_with_the_token_of_the_source(family, telugu, mistral_tokenizer):
    source = mistral_tokenizer
    backend = type(source.backend_tokenizer).from_str(source.backend_tokenizer.to_str())
    set_surrounding(backend, ["<s>"], [], byte_level=False)
    with_bos = fast_tokenizer(backend, settings_of(source))
    for model, expected in ((source, ([], [])), (with_bos, (["<s>"], []))):
        tokenizer = train_tokenizer(telugu, family, SMALL, model)
        assert surrounding(tokenizer) == expected
        assert surrounding(tokenizer) == surrounding(model)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_token_spans_two_words_or_joins_digits(family, trained):
    tokenizer = trained[family][0]
    special = special_ids(tokenizer)
    for number, data in enumerate(token_bytes(tokenizer)):
        text = data.decode("utf-8", errors="ignore")
        if number not in special and text.strip():
            assert " " not in text[1:]
            assert sum(character.isdigit() for character in text) <= 1


@pytest.mark.parametrize("family", SENTENCEPIECE)
def test_tokenizer_model_and_tokenizer_json_segment_identically(family, trained, lines, tmp_path):
    tokenizer, model = trained[family]
    files = save_tokenizer(tokenizer, tmp_path, samples=lines, model=model)
    assert "tokenizer.model" in files
    library = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "tokenizer.model"))
    assert library.encode(lines) == tokenizer(lines, add_special_tokens=False)["input_ids"]
    assert library.bos_id() == tokenizer.bos_token_id
    assert library.eos_id() == tokenizer.eos_token_id


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_source_there_is_an_end_of_text_token(family, telugu):
    tokenizer = train_tokenizer(telugu, family, SMALL)
    assert tokenizer.eos_token == ("<|endoftext|>" if family == FAMILIES[2] else "</s>")
    assert surrounding(tokenizer) == ([], [])


@pytest.mark.bad_input(
    "text",
    "more new tokens than the text yields",
    "a one-line error message gives the number that it yields",
)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_size_that_the_text_cannot_fill_is_refused_with_what_it_can(family, telugu):
    with pytest.raises(UserError, match=r"asked for 90000 tokens, but the text yields only \d+"):
        train_tokenizer(telugu[:50], family, 90_000)


wrong = pytest.mark.bad_input(
    "model",
    "invalid arguments for tokenizer training",
    "a one-line error message names the argument",
)


@wrong
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"family": "wordpiece"}, "family: 'wordpiece' is not known"),
        ({"family": "byte-level"}, "did you mean 'byte-level-bpe'?"),
        ({"corpus": "one text"}, "corpus is one string"),
        ({"corpus": []}, "the corpus is empty"),
        ({"corpus": [" \n"]}, "the corpus is empty"),
        ({"size": 0}, "size: 0 is not a number of tokens"),
    ],
)
def test_wrong_arguments_are_named(arguments, message, telugu):
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        train_tokenizer(**{"corpus": telugu, "family": FAMILIES[0], "size": SIZE, **arguments})


# ---- superwords ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def superwords(english, smollm2_cut):
    """A tokenizer of which a fifth spans words, and one of words alone, of the same size."""
    corpus = [f"Note: {text}" for text in english]
    return [
        train_tokenizer(corpus, "byte-level-bpe", SIZE, smollm2_cut, superwords=share)
        for share in (0.2, 0.0)
    ]


def test_superwords_span_words_and_shorten_text(superwords, english):
    across, words = superwords
    assert sorted(across.get_vocab().values()) == list(range(SIZE))
    several = [data for data in token_bytes(across) if len(data.split()) > 1]
    assert len(several) > SIZE / 20
    assert all(len(data.split()) <= 4 and b":" not in data for data in several)
    assert not any(len(data.split()) > 1 for data in token_bytes(words))
    lengths = [sum(map(len, each(english)["input_ids"])) for each in superwords]
    assert lengths[0] < 0.97 * lengths[1]


def test_superwords_are_the_most_frequent_pairs(english):
    """Each merge is a most frequent pair of tokens, counted anew; of several, the smallest."""
    tokenizer = train_tokenizer(english, "byte-level-bpe", 560, superwords=0.25)
    bpe, first = read_bpe(tokenizer), 560 - int(0.25 * 560)
    learned = [pair for pair in bpe.merges if bpe.vocab["".join(pair)] >= first]
    splits = Counter(
        word for text in english for word in pre_tokens(tokenizer.backend_tokenizer, text)
    )
    before = [pair for pair in bpe.merges if pair not in learned]
    model = models.BPE({t: i for t, i in bpe.vocab.items() if i < first}, before)
    words = [([piece.value for piece in model.tokenize(word)], n) for word, n in splits.items()]
    known = {token for token, number in bpe.vocab.items() if number < first}
    for pair in learned:
        counts: Counter[tuple[str, str]] = Counter()
        for word, count in words:
            for adjacent in pairwise(word):
                counts[adjacent] += count
        allowed = [
            (-count, one)
            for one, count in counts.items()
            if "".join(one) not in known and may_be_superword("".join(one))
        ]
        assert pair == min(allowed)[1]
        known.add("".join(pair))
        for word, _ in words:
            at = 0
            while at < len(word) - 1:
                if (word[at], word[at + 1]) == pair:
                    word[at : at + 2] = ["".join(pair)]
                at += 1


def may_be_superword(token):
    words = piece_bytes(token, "byte-level").split()
    return len(words) <= 4 and (len(words) < 2 or not any(b":" in word for word in words))


@wrong
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"family": "sentencepiece-bpe", "superwords": 0.1},
            "only family byte-level-bpe supports them",
        ),
        ({"family": "byte-level-bpe", "superwords": 1}, "superwords: 1 is not a share"),
    ],
)
def test_impossible_superwords_are_refused(options, message, telugu):
    with pytest.raises(UserError, match=message):
        train_tokenizer(telugu, size=SIZE, **options)


@pytest.mark.parametrize("family", FAMILIES)
def test_it_has_exactly_the_requested_size_and_no_gap(family, trained):
    tokenizer = trained[family][0]
    assert sorted(tokenizer.get_vocab().values()) == list(range(SIZE))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_texts_give_the_same_tokenizer(family, telugu):
    one, two = (train_tokenizer(iter(telugu), family, SMALL) for _ in range(2))
    assert one.backend_tokenizer.to_str() == two.backend_tokenizer.to_str()


def test_superwords_restore_every_text_with_transformers_alone(superwords, lines, tmp_path):
    save_tokenizer(superwords[0], tmp_path, samples=lines)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    ids = loaded(lines, add_special_tokens=False)["input_ids"]
    assert [loaded.decode(row) for row in ids] == lines


@pytest.mark.bad_input(
    "model",
    "invalid arguments for tokenizer training",
    "a one-line error message names the argument",
)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_size_too_small_for_the_characters_is_refused(family, telugu):
    with pytest.raises(UserError, match="size: 20 tokens are too few"):
        train_tokenizer(telugu, family, 20)
