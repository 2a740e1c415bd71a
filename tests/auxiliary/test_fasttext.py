import os
import subprocess
import sys

import numpy as np
import pytest

from lexigraft.auxiliary.fasttext import train_fasttext
from lexigraft.errors import UserError

pytestmark = pytest.mark.usefixtures("fasttext")
SMALL = {"dimensions": 12, "minimum_count": 3, "buckets": 500}


def cosine(vectors, one, other):
    rows = dict(zip(vectors.tokens.tolist(), vectors.vectors, strict=True))
    a, b = rows[one], rows[other]
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


NGRAMS = [None, (3, 6)]


@pytest.fixture(scope="module")
def runs(mistral_model_file, greek, tmp_path_factory):
    """What two processes trained, with each of NGRAMS."""
    corpus = tmp_path_factory.mktemp("runs") / "greek.txt"
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
    # The memory that a process is given holds other bytes each time; here it is told which.
    return [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "MALLOC_PERTURB_": perturb},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for perturb in ("1", "254")
    ]


@pytest.mark.parametrize("at", range(len(NGRAMS)), ids=map(str, NGRAMS))
def test_another_process_trains_the_same_bits(at, runs):
    one, other = (bytes.fromhex(run[at]) for run in runs)
    assert one == other
    assert len(one) > 50 * 12 * 4


def test_another_seed_trains_other_vectors(letters, mixed_texts):
    one, other, same = (train_fasttext(letters, mixed_texts, seed=s, **SMALL) for s in (1, 2, 1))
    assert np.array_equal(one.vectors, same.vectors)
    assert np.array_equal(one.tokens, other.tokens)
    assert not np.allclose(one.vectors, other.vectors)


def test_tokens_have_a_vector_if_they_occur_often_enough(smollm2_tokenizer, telugu):
    found = train_fasttext(smollm2_tokenizer, telugu, **{**SMALL, "minimum_count": 10})
    ids = smollm2_tokenizer(telugu, add_special_tokens=False)["input_ids"]
    counts = np.bincount([i for sentence in ids for i in sentence])
    assert found.tokens.tolist() == np.flatnonzero(counts >= 10).tolist()
    assert found.vectors.shape == (len(found.tokens), 12)


@pytest.mark.parametrize("ngrams", [None, (1, 3)])
def test_tokens_of_white_space_and_the_end_of_line_break_nothing(letters, ngrams):
    texts = ["a</s>b c\n__label__a"] * 20
    found = train_fasttext(letters, texts, character_ngrams=ngrams, **SMALL)
    ids = letters(texts[0])["input_ids"]
    assert found.tokens.tolist() == sorted(set(ids))
    assert {" ", "\n"} <= set(letters.convert_ids_to_tokens(found.tokens.tolist()))


def test_tokens_in_the_same_places_come_out_alike(letters, mixed_texts):
    found = train_fasttext(letters, mixed_texts, **SMALL, epochs=20, subsampling=1.0)
    a, b, c = (letters.get_vocab()[token] for token in "abc")
    assert cosine(found, a, b) > 0.9 > cosine(found, a, c)


def test_training_starts_from_values_that_are_all_drawn(letters, mixed_texts):
    found = train_fasttext(letters, mixed_texts, **SMALL, learning_rate=1e-30)
    assert 0 < np.abs(found.vectors).min() < np.abs(found.vectors).max() <= 1 / 12
    assert abs(found.vectors.mean()) < 1 / 36


def test_character_ngrams_bring_tokens_of_similar_spelling_together(mistral_tokenizer, greek):
    vectors = [
        train_fasttext(mistral_tokenizer, greek, **SMALL, character_ngrams=ngrams).vectors
        for ngrams in (None, (1, 4))
    ]
    assert vectors[0].shape == vectors[1].shape
    assert not np.allclose(*vectors)


def test_a_text_in_which_every_token_is_rare_is_refused(letters):
    with pytest.raises(UserError, match="minimum_count: no token occurs 10 times in 3 sentences"):
        train_fasttext(letters, ["abc"] * 3)


def test_one_string_is_no_corpus(letters):
    with pytest.raises(UserError, match="corpus is one string"):
        train_fasttext(letters, "abc")


def test_special_tokens_in_the_text_get_no_vector(letters):
    found = train_fasttext(letters, ["<s>ab"] * 20, **SMALL)
    assert letters.bos_token_id not in found.tokens
