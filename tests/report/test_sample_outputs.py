"""Samples of texts that were timed: by prompt, the source model's and the best cell's."""

import pytest

from lexigraft.report.records import read_study
from lexigraft.report.samples import sample_outputs
from tests.report.conftest import STRATEGIES, MadeStudy

LANGUAGE = "te-made"


@pytest.fixture
def timed(tmp_path):
    """A study of a source model and two initializers, whose speed was measured."""
    made = MadeStudy(tmp_path)
    source, *grafted = [
        ("tiny", LANGUAGE, "source", "none", "none", 0),
        ("tiny", LANGUAGE, "expand-500", "random", STRATEGIES[0], 0),
        ("tiny", LANGUAGE, "expand-500", "merge", STRATEGIES[0], 0),
    ]
    for cell, bits, seconds in zip(
        (source, *grafted), (1.9, 2.4, 1.2), (6.0, 2.0, 4.0), strict=True
    ):
        made.measured(cell, bits, 1.0, 1.0, tasks=("perplexity",))
        details = {"prompts": ["ఒకటి", "రెండు"]}
        for batch in (16, 1):
            # The middle of three passes over two prompts counts.
            timing = {
                "seconds": [9.0, seconds / batch, 0.1],
                "texts": [f"{cell[3]} {n}" for n in "ab"],
            }
            details[f"batch_{batch}"] = timing
        rows = [{"id": "heldout-0", "sentences": 1, "characters": 9, "bytes": 9, "tokens": 3}]
        made.record(cell, "speed", "speed", {"tokens_per_second_batch_1": 1.0}, 0, rows,
                    details=details)  # fmt: skip
    return made


def test_texts_that_were_timed_stand_side_by_side_with_their_seconds(timed):
    [found] = sample_outputs(read_study(timed.settings, timed.inputs))
    assert found.title == "Telugu, speed"
    shown = [[(one.name, one.text, one.seconds) for one in row] for row in found.rows]
    source, best = "Source model", "Best configuration: Merge"
    assert shown == [
        [("Prompt", prompt, None), (source, f"none {n}", 3.0), (best, f"merge {n}", 2.0)]
        for prompt, n in (("ఒకటి", "a"), ("రెండు", "b"))
    ]


def test_speeds_without_texts_give_no_samples(timed):
    study = read_study(timed.settings, timed.inputs)
    for one in study.predictions:
        for batch in ("batch_1", "batch_16"):
            one.details.get(batch, {}).pop("texts", None)
    assert sample_outputs(study) == []
