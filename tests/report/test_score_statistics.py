"""Scores from summed statistics, held against the libraries that the tasks score with."""

import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from lexigraft.evaluation.tasks.tagging import entity_f1
from lexigraft.report.statistics import (
    bits_score,
    bleu_score,
    bleu_statistics,
    chrf_score,
    chrf_statistics,
    entity_statistics,
    f1_score,
    mean_of,
    mean_score,
    perplexity_score,
)

WORDS = ["లక్ష్మి", "తెలుగు.", "γλώσσα", "a", "(of", "the)", "ไทย", "x", "“y”", "", "!", "我是"]
LABELS = ["O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC", "I-ORG"]


def texts(seed, count, longest=9):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randrange(longest))) for _ in range(count)]


def pairs(seed, count=150, kept=0.6):
    """Outputs that have some of their references' words."""
    draw, references = random.Random(seed), texts(seed, count)
    outputs = [
        " ".join(word if draw.random() < kept else draw.choice(WORDS) for word in text.split())
        for text in references
    ]
    return outputs, references


@pytest.mark.parametrize("words", [0, 2])
def test_chrf_statistics_are_those_of_sacrebleu(words):
    outputs, references = pairs(1)
    ours = [chrf_statistics(*pair, words) for pair in zip(outputs, references, strict=True)]
    theirs = CHRF(word_order=words)._extract_corpus_statistics(outputs, [references])
    assert ours == theirs


@pytest.mark.parametrize("words", [0, 2])
def test_chrf_is_that_of_sacrebleu_for_a_corpus_and_for_each_sentence(words):
    outputs, references = pairs(3)
    rows = np.array(
        [chrf_statistics(*pair, words) for pair in zip(outputs, references, strict=True)]
    )
    metric = CHRF(word_order=words)
    assert chrf_score(rows.sum(0)) == pytest.approx(
        metric.corpus_score(outputs, [references]).score
    )
    sentences = [
        metric.sentence_score(a, [b]).score for a, b in zip(outputs, references, strict=True)
    ]
    assert chrf_score(rows) == pytest.approx(sentences)


@pytest.mark.parametrize("tokenize", ["13a", "char", "zh"])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.95])
def test_bleu_is_that_of_sacrebleu(tokenize, kept):
    outputs, references = pairs(5, kept=kept)
    metric = BLEU(tokenize=tokenize)
    rows = np.array(
        [bleu_statistics(*pair, metric.tokenizer) for pair in zip(outputs, references, strict=True)]
    )
    assert bleu_score(rows.sum(0)) == pytest.approx(
        metric.corpus_score(outputs, [references]).score
    )
    # Few sentences, so that longer n-grams have no match, or there are none of them at all.
    for begin in range(0, len(outputs), 3):
        some = slice(begin, begin + 3)
        theirs = metric.corpus_score(outputs[some], [references[some]]).score
        assert bleu_score(rows[some].sum(0)) == pytest.approx(theirs)


def test_a_score_of_many_sums_at_once_is_that_of_each():
    outputs, references = pairs(7, 12)
    tokenize = BLEU().tokenizer
    rows = np.array(
        [bleu_statistics(*pair, tokenize) for pair in zip(outputs, references, strict=True)]
    )
    counts = np.random.default_rng(0).integers(0, 3, size=(20, 12))
    assert bleu_score(counts @ rows) == pytest.approx(
        [float(bleu_score(own @ rows)) for own in counts]
    )


def test_the_f1_of_entities_is_that_of_seqeval():
    draw = random.Random(2)
    expected, found = (
        [[draw.choice(LABELS) for _ in range(size)] for size in (1, 4, 7, 2, 5)] for _ in range(2)
    )
    found[1] = expected[1]
    rows = np.array(
        [
            entity_statistics(" ".join(ours), " ".join(theirs))
            for ours, theirs in zip(found, expected, strict=True)
        ]
    )
    assert f1_score(rows.sum(0)) == pytest.approx(entity_f1(expected, found))
    assert f1_score(np.zeros(3)) == 0


def test_bits_and_perplexity_are_worked_out_by_hand():
    # Two sentences: 8 bits in 2 bytes, 4 bits in 4 bytes.
    nats = np.array([[8 * np.log(2), 2], [4 * np.log(2), 4]])
    assert bits_score(nats.sum(0)) == pytest.approx(2)
    assert perplexity_score(np.array([6 * np.log(3), 6])) == pytest.approx(3)


def test_several_tests_count_the_same_whatever_their_size():
    # The one example of the first test scores 1, the three of the second 0, 0 and 3.
    rows = np.array([[1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 3, 1]])
    assert mean_of(mean_score, 2)(rows.sum(0)) == 1
    assert mean_of(mean_score, 2)(rows[:3].sum(0)) == 0.5
    assert mean_score((rows[:3, :2] + rows[:3, 2:]).sum(0)) == pytest.approx(1 / 3)
