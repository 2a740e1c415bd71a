"""Statistics of examples: which a metric has, and the scores of their sums."""

import random

import numpy as np
import pytest
from seqeval.metrics import f1_score

from lexigraft.evaluation.tasks.tagging import entity_score, entity_statistics
from lexigraft.report.significance import example_scores

LABELS = ["O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC", "I-ORG"]


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
    assert entity_score(rows.sum(0)) == pytest.approx(100 * f1_score(expected, found))
    assert entity_score(np.zeros(3)) == 0


def rows_by_test():
    scores = {"te": [1, 0], "el": [1, 1, 1, 0], "english": [0, 0, 1]}
    return [{"id": f"{test}-{at}", "test": test, "accuracy": float(value)}
            for test, values in scores.items() for at, value in enumerate(values)]  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "score", "examples"),
    [
        ("accuracy", (1 / 2 + 3 / 4) / 2, 6),
        ("accuracy_el", 3 / 4, 4),
        ("english_accuracy", 1 / 3, 3),
        ("accuracy_with_english", (1 / 2 + 3 / 4 + 1 / 3) / 3, 9),
    ],
)
def test_a_task_of_several_tests_is_their_mean_and_each_has_its_own(metric, score, examples):
    found = example_scores(rows_by_test(), "classification", metric, {})
    assert len(found.ids) == examples
    assert found.score(found.statistics.sum(axis=0)) == pytest.approx(score)
    assert found.single.tolist() == [
        row["accuracy"] for row in rows_by_test() if row["id"] in found.ids
    ]


def test_perplexity_pools_the_sentences_of_a_group():
    rows = [
        {"id": f"{test}-0", "test": test, "nats": nats, "tokens": 1, "bytes": size}
        for test, nats, size in (("te", 3.0, 2), ("el", 5.0, 6), ("english", 100.0, 1))
    ]
    wanted = {"bits_per_byte": 1.0, "bits_per_byte_te": 1.5, "english_bits_per_byte": 100.0}
    for metric, expected in wanted.items():
        found = example_scores(rows, "perplexity", metric, {})
        bits = found.score(found.statistics.sum(axis=0)) * np.log(2)
        assert bits == pytest.approx(expected)


def test_bleu_takes_the_tokenizer_that_its_signature_names():
    row = {"id": "0", "output": "ab, cd", "reference": "ab , cd"}
    signature = "nrefs:1|case:mixed|eff:no|tok:{}|smooth:exp|version:2.6.0"
    found = {
        tok: example_scores([row], "translation", "bleu", {"bleu_signature": signature.format(tok)})
        for tok in ("13a", "none")
    }
    assert found["13a"].statistics[0, :4].tolist() == [3, 3, 3, 2]
    assert found["none"].statistics[0, :4].tolist() == [2, 3, 1, 0]
    assert example_scores([row], "translation", "bleu", {}) is None
