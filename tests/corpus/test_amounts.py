"""How much of a corpus vocabularies, vectors and initializers read."""

import json

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from lexigraft.corpus.mixture import read_amount, read_part
from lexigraft.errors import UserError
from lexigraft.source import encoding, model


@pytest.fixture
def group(tmp_path):
    """A group of two members, of which the first has three quarters of what is read."""
    for name, letter in (("el", "α"), ("sw", "s")):
        (tmp_path / "members" / name).mkdir(parents=True)
        text = "".join(f"{letter * 3} {number:02}\n" for number in range(40))
        (tmp_path / "members" / name / "train.txt").write_text(text)
    (tmp_path / "mixture.json").write_text(json.dumps({"el": 0.75, "sw": 0.25}))
    return tmp_path


def read(group, **text):
    return list(read_amount(group, {"text": text} if text else {}, ""))


@pytest.fixture
def word_tokens(monkeypatch):
    """Source models whose tokens are words; the file of their tokenizer asks for one of a text."""
    backend = Tokenizer(models.WordLevel({"?": 0}, "?"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.enable_truncation(1)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="?")
    monkeypatch.setattr(encoding, "_TEXTS_AT_ONCE", 3)
    monkeypatch.setattr("lexigraft.source.model.open_tokenizer", lambda source: tokenizer)


def test_without_an_amount_all_is_read_that_has_the_shares(group):
    assert read(group) == list(read_part(group))
    assert sum(text.startswith("α") for text in read(group)) == 40
    assert 13 <= sum(text.startswith("s") for text in read(group)) <= 14


def test_an_amount_is_the_beginning_of_it(group, word_tokens):
    assert read(group, sentences=10) == read(group)[:10]
    assert read(group, tokens=14) == read(group)[:7]
    assert read(group, tokens=13) == read(group)[:7]
    assert read(group, tokens=10**6) == read(group)


def test_an_amount_is_counted_with_the_tokenizer_that_it_names(group, word_tokens, monkeypatch):
    opened, of_words = [], model.open_tokenizer("")
    monkeypatch.setattr(model, "open_tokenizer", lambda name: (opened.append(name), of_words)[1])
    for key in ("tokens", "tokens_per_language", "target_tokens_per_language"):
        list(read_amount(group, {"text": {key: 14}}, "llama", "expanded"))
    assert opened == ["llama", "llama", "expanded"]


def test_an_amount_of_each_language_is_equal_whatever_the_shares(group, word_tokens):
    for text in ({"sentences_per_language": 5}, {"tokens_per_language": 10}):
        found = read(group, **text)
        assert [line[0] for line in found] == 5 * ["α"] + 5 * ["s"]


@pytest.mark.bad_input(
    "text", "an invalid amount of text", "a one-line error message names the key"
)
@pytest.mark.parametrize("text", [{"sentences": 1, "tokens": 2}, {"tokens": 0}, {"words": 3}])
def test_an_amount_that_is_none_is_refused(group, text):
    with pytest.raises(UserError, match=r"^text"):
        read(group, **text)
