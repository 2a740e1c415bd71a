import json
from pathlib import Path

import pytest

from lexigraft.evaluation.predictions import conditions, keep, predict

EXAMPLES = [
    {"id": "a", "source": "one two", "reference": "ένα δύο"},
    {"id": "b", "source": "yes", "reference": "ναι"},
]
PROMPTS = [f"{example['source']} =" for example in EXAMPLES]


@pytest.fixture
def ask(model, byte_tokenizer, make_job):
    """Predict for EXAMPLES; keywords override."""
    job = make_job("translation")

    def ask(**options):
        given = {"max_new_tokens": 30, "batch_size": 2, **options}
        return predict(model, byte_tokenizer(), job, EXAMPLES, PROMPTS, **given), job

    return ask


def test_outputs_end_at_the_strings_that_a_task_names(ask):
    free, _ = ask(stop=[])
    stop = next(letter for letter in free[0]["output"][3:] if letter.isascii())
    cut, _ = ask(stop=[stop])
    for row, whole in zip(cut, free, strict=True):
        assert row["output"] == whole["output"].partition(stop)[0].strip()
    assert cut[0]["finished"]
    assert cut[0]["steps"] < free[0]["steps"]


def test_rows_are_kept_and_what_was_kept_to_resume_goes(ask):
    rows, job = ask()
    folder = Path(job["outputs"]["folder"])
    assert [file.name for file in folder.iterdir()] == ["predictions.partial.jsonl"]
    keep(rows, job)
    assert [file.name for file in folder.iterdir()] == ["predictions.jsonl"]
    lines = (folder / "predictions.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == rows


def test_conditions_count_what_is_empty_or_unfinished(ask, model):
    rows, _ = ask(stop=[])
    rows[0] |= {"output": "", "finished": True}
    rows[1] |= {"output": "x", "finished": False}
    assert conditions(rows, model) == {
        "empty_outputs": 1,
        "unfinished_outputs": 1,
        "precision": "float32",
        "device": "cpu",
        "engine": "transformers",
    }
