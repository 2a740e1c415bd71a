"""Examples of tasks that encoders are fine-tuned for, read from tables."""

import json

import pytest

from lexigraft.corpus.examples import prepare_examples, read_examples
from lexigraft.errors import UserError

NLI = {
    "rows": "labels",
    "labels": ["yes", "no"],
    "columns": {"first": "premise", "second": "hypothesis", "label": "label"},
}
NER = {
    "rows": "tags",
    "labels": ["O", "B-PER", "I-PER"],
    "columns": {"words": "tokens", "tags": "ner_tags"},
}
QA = {
    "rows": "spans",
    "columns": {
        "question": "question",
        "context": "context",
        "answers": "answers.text",
        "starts": "answers.answer_start",
    },
}


@pytest.fixture
def made(tmp_path):
    """Examples of a table of these rows, and what the card would say."""

    def build(settings, rows):
        file = tmp_path / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        settings = {**settings, "text": {"loader": "jsonl", "path": str(file)}}
        _, facts = prepare_examples(settings, tmp_path)
        return read_examples(tmp_path), facts

    return build


def test_labels_go_by_name_or_number(made):
    rows = [
        {"premise": " one ", "hypothesis": "two", "label": 1, "idx": 7},
        {"premise": "three", "hypothesis": "four", "label": "yes"},
        {"premise": "five", "hypothesis": " ", "label": 0},
    ]
    examples, facts = made(NLI, rows)
    assert examples == [
        {"id": "000001", "first": "one", "second": "two", "label": "no"},
        {"id": "000002", "first": "three", "second": "four", "label": "yes"},
    ]
    assert facts["rows"] == {"read": 3, "blank": 1, "unanswered": 0}
    assert (facts["examples"], facts["labels"]) == (2, ["yes", "no"])


@pytest.mark.parametrize("label", [2, -1, "maybe", None, 0.5])
def test_a_label_without_a_name_is_reported_with_its_row(made, label):
    rows = [{"premise": "a", "hypothesis": "b", "label": label}]
    with pytest.raises(UserError, match=r"line 1: label .* is not one of yes, no"):
        made(NLI, rows)


@pytest.mark.bad_input(
    "text",
    "answers or words that are not lists of texts",
    "a one-line error message gives the row and its value",
)
@pytest.mark.parametrize(
    ("words", "message"),
    [("Ada", "contains Ada, not a list of texts"), ([None], "contains \\[None\\]")],
)
def test_words_that_are_no_list_of_texts_are_reported(made, words, message):
    with pytest.raises(UserError, match=f"line 1: field 'tokens' {message}"):
        made(NER, [{"tokens": words, "ner_tags": [0]}])


def test_answers_must_be_at_the_position_in_the_table(made):
    def row(texts, starts):
        answers = {"text": texts, "answer_start": starts}
        return {"question": " Who? ", "context": "Ada wrote it.", "answers": answers}

    rows = [row(["Ada", "wrote"], [0, 5]), row(["Ada"], [1]), row([], []), row([""], [0])]
    examples, facts = made(QA, rows)
    assert examples == [
        {
            "id": "000001",
            "question": "Who?",
            "context": "Ada wrote it.",
            "answers": [{"text": "Ada", "start": 0}],
        }
    ]
    assert facts["rows"] == {"read": 4, "blank": 0, "unanswered": 3}
    assert facts["labels"] is None
