"""Test sets of tasks: parallel texts, articles and questions in their published formats."""

import json

import pytest

from lexigraft.corpus.examples import prepare_test_set
from lexigraft.errors import UserError

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


def test_two_files_of_a_set_with_windows_line_ends(prepared, tmp_path):
    (tmp_path / "src.eng.txt").write_bytes(b"One, two.\r\n\r\nThree.\r\n")
    (tmp_path / "ref.tel.txt").write_bytes("ఒకటి.\r\nరెండు\r\nమూడు.\r\n".encode())
    text = {"loader": "files", "source": str(tmp_path / "src.eng.txt"),
            "target": str(tmp_path / "ref.tel.txt")}  # fmt: skip
    rows, facts = prepared("pairs", text)
    assert rows == [
        {"id": "0001", "source": "One, two.", "target": "ఒకటి."},
        {"id": "0003", "source": "Three.", "target": "మూడు."},
    ]
    assert facts["tests"] == 2
    counts = facts["rows"]["cleaning"]
    assert (counts["read"], counts["blank"], counts["windows_line_ends"]) == (3, 1, 6)


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
        ("{}", "not in SQuAD's format .*'data'"),
        ("{", "not JSON"),
        pytest.param("[" * 200_000, "not JSON", id="nested deeply"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_laid_out_otherwise_is_reported(prepared, tmp_path, content, message):
    path = tmp_path / "squad.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=message):
        prepared("questions", {"loader": "squad", "path": str(path)}, columns=COLUMNS)
