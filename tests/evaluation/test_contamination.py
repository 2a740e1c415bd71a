"""Tests of tasks in training text, by hand."""

import json
from runpy import run_path

import pytest

from lexigraft.evaluation.contamination import count_tests, texts_of
from tests.conftest import REPOSITORY


@pytest.fixture
def rows(tmp_path):
    def write(*given, name="test_set.jsonl"):
        file = tmp_path / name
        file.write_text("".join(json.dumps(row) + "\n" for row in given), "utf-8")
        return file

    return write


ANSWER = {"question": "Wo liegt Rom?", "context": "Rom liegt\nin Italien.", "answers": ["Italien"]}


@pytest.mark.parametrize(
    ("kind", "row", "texts"),
    [
        ("translation", {"source": "the sun", "target": "die Sonne"}, {"": ["die Sonne"]}),
        ("question_answering", ANSWER,
         {"questions": ["Wo liegt Rom?"], "contexts": ["Rom liegt in Italien."]}),
        ("classification", {"first": "Es regnet", "second": "Es ist nass", "label": "x"},
         {"": ["Es regnet", "Es ist nass"]}),
        ("classification", {"first": "Es regnet", "second": None, "label": "x"},
         {"": ["Es regnet"]}),
        ("tagging", {"words": ["Ann", "singt", "."], "tags": ["B", "O", "O"]},
         {"": ["Ann singt ."]}),
    ],
)  # fmt: skip
def test_questions_are_searched_for_and_answers_are_not(rows, kind, row, texts):
    assert texts_of(kind, rows({"id": "1", **row})) == texts


def test_texts_are_cleaned_as_training_text_is(rows):
    assert texts_of("summarization", rows({"reference": "cafe\u0301\u00a0 am  See\r"})) == {
        "": ["café am See"]
    }


@pytest.fixture
def train(tmp_path):
    """A corpus of Rome's question in capitals, its context in two sentences, and more."""
    text = f"{'wo liegt rom'.upper()}\n{LONG[:80]}\n{LONG[80:]}\nandere Sätze\n"
    (tmp_path / "train.txt").write_text(text, "utf-8")
    return tmp_path


LONG = "".join(chr(ord("a") + (7 * at * at + at // 26) % 26) for at in range(220))


def test_tests_are_counted_by_language_and_part(rows, train):
    german = rows(ANSWER | {"context": LONG}, {"question": "Wie?", "context": "Bern ist klein."})
    english = rows({"question": "Where is Rome?", "context": "Rome."}, name="english.jsonl")
    found = count_tests("question_answering", {"german": german, "english": english}, train)
    counted = {(row["test"], row["part"]): (row["texts"], row["found"], row["mostly_found"])
               for row in found}  # fmt: skip
    # The context is nowhere whole: its runs are in two sentences, but for those over the border.
    assert counted == {
        ("german", "questions"): (2, 1, 0), ("german", "contexts"): (2, 0, 1),
        ("english", "questions"): (1, 0, 0), ("english", "contexts"): (1, 0, 0),
    }  # fmt: skip
    assert found[0]["training_sentences"] == 1


def test_the_script_writes_a_record(rows, train, tmp_path):
    job = {
        "rule": "count_tests", "settings": {"kind": "question_answering"},
        "inputs": {"text": str(train), "tests": {"german": str(rows(ANSWER))}},
        "outputs": {"folder": str(tmp_path)},
        "language": "german", "task": "quad",
    }  # fmt: skip
    run_path(str(REPOSITORY / "scripts" / "count_tests.py"))["stage"](job)
    record = json.loads((tmp_path / "record.json").read_text("utf-8"))
    assert (record["language"], record["task"], record["not_counted"]) == ("german", "quad", {})
    assert [row["found"] for row in record["tests"]] == [1, 0]
