"""Training samples from the rows of a table, by templates."""

import json

import pytest

from lexigraft.corpus.contamination import Overlap
from lexigraft.corpus.training_samples import joined, questions
from lexigraft.errors import UserError

SEED = (0, "corpus", "te", "samples", "science")
NO_TESTS = Overlap([])
ROWS = [
    {"question": "What is ice?", "choices": {"text": ["water", "fire"]}, "label": 0},
    {"question": "What burns?", "choices": {"text": ["stone", "wood"]}, "label": 1},
]
TEMPLATES = {
    "prompt": "Question: {{question}}\nAnswer:",
    "answer": " {{choices.text[label]}}",
}


def settings(folder, rows, number=None, **templates):
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    text = {"loader": "jsonl", "path": str(file)}
    return {**TEMPLATES, "text": text, "questions": number, **templates}


def test_templates_are_filled_from_nested_columns(tmp_path):
    samples, facts = questions(settings(tmp_path, ROWS), SEED, NO_TESTS)
    assert sorted(samples) == [
        ("Question: What burns?\nAnswer:", " wood"),
        ("Question: What is ice?\nAnswer:", " water"),
    ]
    assert facts["rows"] == {"read": 2, "blank": 0, "like_tests": 0}


@pytest.mark.parametrize(
    ("prompt", "answer", "made"),
    [
        ("Answer:", " wood", ("Answer:", " wood")),
        ("Answer: ", "wood", ("Answer:", " wood")),
        ("Answer:\n", "wood", ("Answer:", "\nwood")),
        ("Answer: \n", "  wood \n", ("Answer:", " \n  wood")),
        ("A\r\nB:", " wood\x00", ("A\nB:", " wood")),
        ("答え：", "木", ("答え：", "木")),
        ("Answer:", "  ", None),
        (" \n", " wood", None),
    ],
)
def test_white_space_between_the_two_is_the_answer_s(prompt, answer, made):
    assert joined(prompt, answer) == made


def test_blank_repeated_and_tested_rows_are_left_out(tmp_path):
    rows = [
        {"q": "kept", "a": "yes"}, {"q": "kept", "a": "yes"}, {"q": "no answer", "a": None},
        {"q": "empty", "a": " "}, {"q": "Is this sentence tested?", "a": "yes"},
    ]  # fmt: skip
    given = settings(tmp_path, rows, prompt="Q: {{q}}", answer=" {{a or ''}}")
    samples, facts = questions(given, SEED, Overlap(["Is this sentence tested"]))
    assert samples == [("Q: kept", " yes")]
    assert facts["rows"] == {"read": 5, "blank": 2, "like_tests": 1}


@pytest.mark.bad_input(
    "text",
    "a sample template that does not fit the rows",
    "a one-line error message names the template and the line",
)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": "{{quastion}}"}, r"line 1: the template 'prompt' cannot be filled .*label"),
        ({"answer": " {{choices.text[7]}}"}, "template 'answer' cannot be filled"),
        ({"answer": " {{choices.text[label"}, "answer: not a Jinja template"),
        ({"answer": "{{ ''.__class__.__mro__ }}"}, "template 'answer' cannot be filled"),
    ],
)
def test_errors_are_one_line(tmp_path, change, message):
    with pytest.raises(UserError, match=message) as error:
        questions({**settings(tmp_path, ROWS), **change}, SEED, NO_TESTS)
    assert "\n" not in str(error.value)
