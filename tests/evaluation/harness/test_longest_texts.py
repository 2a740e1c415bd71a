"""What a benchmark asks, looked for in training text: by the harness's own tasks."""

import json
from runpy import run_path

import pytest

from lexigraft.evaluation.harness.benchmarks import longest, longest_texts
from tests.conftest import REPOSITORY


@pytest.mark.parametrize(
    ("example", "text"),
    [
        ({"question": "Wer?", "passage": "Ein langer Text.", "label": 3, "made": "by the harness"},
         "Ein langer Text."),
        ({"premise": "Es regnet.", "choices": ["a very long list of choices"], "question": None},
         "Es regnet."),
        ({"label": 1}, ""),
    ],
)  # fmt: skip
def test_the_longest_text_of_the_data_set_s_own_columns(example, text):
    assert longest(example, ["question", "passage", "premise", "choices", "label"]) == text


def test_texts_are_of_what_is_tested_and_not_of_examples_to_show(prepared):
    place = prepared("arc_de", "okapi/arc_multilingual")
    assert longest_texts(place) == ["die Sonne am Mittag", "Was schwimmt?", "Was ist süß?"]


def test_a_benchmark_is_counted_and_one_without_data_says_why(prepared, tmp_path):
    found, lacking = prepared("xnli_de", "xnli"), tmp_path / "xnli_sw"
    lacking.mkdir()
    (lacking / "card.json").write_text(json.dumps({"available": False, "why": "no network"}))
    (tmp_path / "train.txt").write_text("es ist NASS!\nSie weint.\nNichts davon.\n", "utf-8")
    job = {
        "rule": "count_tests", "settings": {"kind": "multiple_choice"},
        "inputs": {"text": str(tmp_path / "train.txt"),
                   "tests": {"german": str(found), "swahili": str(lacking)}},
        "outputs": {"folder": str(tmp_path), "file": str(tmp_path / "record.json")},
        "language": "german", "task": "xnli-0-shot",
    }  # fmt: skip
    run_path(str(REPOSITORY / "scripts" / "count_tests.py"))["stage"](job)
    record = json.loads((tmp_path / "record.json").read_text("utf-8"))
    (row,) = record["tests"]
    # The longer one of each pair: "Es ist nass", "Sie lacht", "Er singt" and "Nein".
    assert (row["test"], row["texts"], row["found"]) == ("german", 4, 1)
    assert record["not_counted"] == {"swahili": "no network"}
