"""Examples of tasks that encoders are fine-tuned for, read from tables."""

import json

import pytest

from lexigraft.corpus.examples import prepare_examples, prepare_test_set, read_examples
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


COLUMNS = {"question": "question", "context": "context", "answers": "answers.text"}


@pytest.fixture
def prepared(tmp_path):
    """What is written of a text, and what the card would say."""

    def build(form, text, **settings):
        settings |= {"rows": form, "text": text}
        _, facts = prepare_test_set(settings, tmp_path / "out")
        lines = (tmp_path / "out" / "test_set.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines], facts

    return build


@pytest.fixture
def parquet(tmp_path):
    """A Parquet file of rows."""

    def build(name, rows):
        import pyarrow
        from pyarrow import parquet

        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pyarrow.Table.from_pylist(rows), file)
        return str(file)

    return build


SQUAD = {
    "version": "1.0",
    "data": [
        {
            "title": "Köln",
            "paragraphs": [
                {
                    "context": "Köln liegt am Rhein.\nEs ist alt. ",
                    "qas": [
                        {"id": "q1", "question": " Woran liegt Köln? ",
                         "answers": [{"text": "am Rhein", "answer_start": 11},
                                     {"text": "Rhein", "answer_start": 14},
                                     {"text": "am Rhein", "answer_start": 11}]},
                        {"id": "q2", "question": "Wer?", "answers": []},
                        {"id": "q3", "question": "", "answers": [{"text": "x", "answer_start": 0}]},
                    ],
                }
            ],
        }
    ],
}  # fmt: skip
QUESTION = {
    "id": "0001",
    "question": "Woran liegt Köln?",
    "context": "Köln liegt am Rhein.\nEs ist alt.",
    "answers": ["am Rhein", "Rhein"],
}


def test_a_file_in_squad_s_layout_is_as_the_table_of_the_hub(prepared, parquet, tmp_path):
    path = tmp_path / "test-context-de-question-de.json"
    path.write_text(json.dumps(SQUAD), "utf-8")
    rows, facts = prepared("questions", {"loader": "squad", "path": str(path)}, columns=COLUMNS)
    assert rows == [QUESTION]
    assert (facts["rows"]["unanswered"], facts["rows"]["cleaning"]["blank"]) == (1, 1)
    [paragraph] = SQUAD["data"][0]["paragraphs"]
    table = [
        {
            "context": paragraph["context"],
            "question": one["question"],
            "answers": {
                "text": [answer["text"] for answer in one["answers"]],
                "answer_start": [answer["answer_start"] for answer in one["answers"]],
            },
        }
        for one in paragraph["qas"]
    ]
    text = {"loader": "parquet", "path": parquet("0000.parquet", table)}
    assert prepared("questions", text, columns=COLUMNS)[0] == [QUESTION]


@pytest.mark.bad_input(
    "text",
    "answers or words that are not lists of texts",
    "a one-line error message gives the row and its value",
)
def test_answers_that_are_no_texts_are_reported(prepared, parquet):
    row = {"question": "Who?", "context": "Ada did.", "answers": {"text": ["Ada"], "start": [0]}}
    text = {"loader": "parquet", "path": parquet("rows.parquet", [row])}
    columns = {"question": "question", "context": "context", "answers": "answers"}
    with pytest.raises(
        UserError, match=r"row 1: field 'answers' contains \{'text': .*, not a list"
    ):
        prepared("questions", text, columns=columns)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "SQuAD's format .*'data'"),
        ("{", "SQuAD's format"),
        pytest.param("[" * 200_000, "SQuAD's format", id="nested deeply"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_laid_out_otherwise_is_reported(prepared, tmp_path, content, message):
    path = tmp_path / "squad.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=message):
        prepared("questions", {"loader": "squad", "path": str(path)}, columns=COLUMNS)


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
