import os
import sys
from contextlib import redirect_stdout
from io import StringIO

import pytest

from lexigraft.auxiliary.fasttext import (
    numbered_words,
    spelled_words,
    train_fasttext,
    write_sentences,
)
from lexigraft.vocabulary.token_bytes import special_ids
from tests.auxiliary.conftest import TOKENS
from tests.conftest import REPOSITORY, run_command

SPLITS = set(" \n\r\t\v\f\0")
SMALL = {"dimensions": 12, "minimum_count": 3, "buckets": 500}


NGRAMS = [None, (3, 6)]


@pytest.mark.usefixtures("fasttext")
def test_training_in_another_process_gives_the_same_bits(mistral_model_file, greek, tmp_path):
    """Memory that the other process is given holds other bytes."""
    corpus = tmp_path / "greek.txt"
    corpus.write_text("\n".join(greek), encoding="utf-8")
    code = f"""
from lexigraft.auxiliary.fasttext import train_fasttext
from lexigraft.source.sentencepiece import sentencepiece_to_fast
tokenizer = sentencepiece_to_fast({str(mistral_model_file)!r})
lines = open({str(corpus)!r}, encoding="utf-8").read().splitlines()
for ngrams in {NGRAMS}:
    found = train_fasttext(tokenizer, lines, character_ngrams=ngrams, seed=5, **{SMALL})
    print((found.tokens.tobytes() + found.vectors.tobytes()).hex())
"""
    printed = StringIO()
    with redirect_stdout(printed):
        exec(code, {})
    env = os.environ | {"PYTHONPATH": str(REPOSITORY), "MALLOC_PERTURB_": "254"}
    other = run_command([sys.executable, "-c", code], env=env, check=True)
    assert printed.getvalue() == other.stdout
    assert all(len(run) > 2 * 50 * 12 * 4 for run in other.stdout.splitlines())


@pytest.mark.usefixtures("fasttext")
@pytest.mark.parametrize("ngrams", [None, (1, 3)])
def test_tokens_with_white_space_or_the_end_of_line_get_vectors(letters, ngrams):
    texts = ["a</s>b c\n__label__a"] * 20
    found = train_fasttext(letters, texts, character_ngrams=ngrams, **SMALL)
    ids = letters(texts[0])["input_ids"]
    assert found.tokens.tolist() == sorted(set(ids))
    assert {" ", "\n"} <= set(letters.convert_ids_to_tokens(found.tokens.tolist()))


@pytest.fixture(params=["letters", "smollm2_tokenizer", "mistral_tokenizer"])
def tokenizer(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("spell", [numbered_words, spelled_words])
def test_each_ordinary_token_is_written_as_a_different_word(tokenizer, spell):
    words = spell(tokenizer)
    special = special_ids(tokenizer)
    ids = sorted(set(tokenizer.get_vocab().values()) - special)
    spelled = [words[number] for number in ids]
    assert len(set(spelled)) == len(spelled)
    assert not any(set(word) & SPLITS or word in ("", "</s>") for word in spelled)
    assert {words[number] for number in special} == {""}


def test_words_are_vocabulary_strings_without_white_space(letters):
    words = dict(zip(TOKENS, spelled_words(letters), strict=True))
    assert words["Ġa"] == "Ġa"
    assert words["\u00a0"] == "\u00a0"  # fastText does not split at it
    assert words[" "] == "␠"
    assert words["\n"] == "␊␊␊"  # the picture of a line feed, alone and twice, are tokens
    assert words["</s>"] == "</s>>"


def test_each_sentence_is_one_line_of_tokens(letters, tmp_path):
    file = tmp_path / "text"
    counts, lines = write_sentences(letters, ["a b", "a\nb"], numbered_words(letters), file)
    assert file.read_text().splitlines() == ["t1 t5 t2", "t1 t6 t2"]
    assert lines == 2
    assert counts.tolist() == [0, 2, 2, 0, 0, 1, 1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "text, kept",
    [
        ("one two three four five", True),
        ("one two three four", False),
        ("రెండు పదాలు", False),
        ("短い文です", True),  # five characters
        ("短い文だ", False),
        ("ขอบคุณ", True),
    ],
)
def test_short_sentences_are_left_out_with_minimum_words(mistral_tokenizer, tmp_path, text, kept):
    words = numbered_words(mistral_tokenizer)
    _, lines = write_sentences(mistral_tokenizer, [text], words, tmp_path / "text", 5)
    assert lines == kept
