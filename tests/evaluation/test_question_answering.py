"""Questions that a causal model answers in words of its own."""

import json
from pathlib import Path

import pytest

from lexigraft.errors import UserError
from lexigraft.evaluation.tasks.question_answering import evaluate

TEXTS = {
    "greek": [
        ("Η Άννα μένει στο Βόλο.", "Πού μένει η Άννα;", ["στο Βόλο", "Βόλο"]),
        ("Το τρένο φεύγει στις 8.", "Πότε φεύγει;", ["στις 8"]),
        ("Ο Νίκος έχει γάτα.", "Τι έχει ο Νίκος;", ["γάτα"]),
        ("Βρέχει από το πρωί.", "Τι καιρό κάνει;", ["Βρέχει"]),
    ],
    "english": [
        ("Ann lives in Volos.", "Where does Ann live?", ["in Volos"]),
        ("The train leaves at 8.", "When does it leave?", ["at 8"]),
        ("Nick has a cat.", "What has Nick?", ["the cat"]),
    ],
}


def predictions(job) -> list[dict]:
    lines = Path(job["outputs"]["predictions"]).read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


@pytest.fixture
def job(make_job, tmp_path):
    """Asks Greek questions alone; `languages` and settings as a test wants them."""

    def build(*languages, pool=False, run=0, **settings):
        codes = {name: {"greek": "el", "english": "en"}[name] for name in languages or ("greek",)}
        job = make_job("question_answering", run=run, **{"max_new_tokens": 8, **settings})
        parts = {}
        for part in ("tests", "shots") if pool else ("tests",):
            parts[part] = {}
            for name in codes:
                folder = tmp_path / part / name
                folder.mkdir(parents=True, exist_ok=True)
                rows = [
                    {"id": f"{at:04d}", "context": context, "question": question, "answers": found}
                    for at, (context, question, found) in enumerate(TEXTS[name], start=1)
                ]
                if part == "shots":
                    rows = [{**row, "context": f"Άλλο. {row['context']}", "question": "?" * at}
                            for at, row in enumerate(rows, start=1)]  # fmt: skip
                text = "".join(json.dumps(row) + "\n" for row in rows)
                (folder / "test_set.jsonl").write_text(text, "utf-8")
                parts[part][name] = str(folder)
        job["inputs"]["test_sets"] = parts
        return {**job, "tested": codes}

    return build


def test_a_question_is_asked_with_its_text_in_its_language(model, byte_tokenizer, job):
    asked = job()
    details = evaluate(model, byte_tokenizer(), asked).details
    row = predictions(asked)[1]
    assert row["prompt"] == ("Κείμενο: Το τρένο φεύγει στις 8.\nΕρώτηση: Πότε φεύγει;\nΑπάντηση:")
    assert (row["id"], row["test"], row["source"]) == ("greek-0002", "greek", "Πότε φεύγει;")
    assert (row["reference"], row["shots"]) == ("στις 8", 0)
    assert row["prompt_tokens"] == 1 + len(row["prompt"].encode())  # a token is a byte here
    assert details["tests"] == {"greek": {"drawn_from": 4, "questions": 4}}


def test_answers_are_scored_by_the_best_reference(model, byte_tokenizer, job, writing):
    tokenizer = byte_tokenizer()
    writing("«Βόλο»!", tokenizer)
    asked = job()
    metrics = evaluate(model, tokenizer, asked).metrics
    assert [row["exact_match"] for row in predictions(asked)] == [100, 0, 0, 0]
    assert metrics["exact_match"] == metrics["f1"] == 25
    assert metrics["samples"] == 4


@pytest.mark.parametrize(
    ("settings", "exact"), [({}, 0), ({"answers_in": "en"}, 100), ({"normalization": "squad"}, 100)]
)
def test_grammatical_articles_are_those_of_the_language_of_the_answers(
    model, byte_tokenizer, job, writing, settings, exact
):
    tokenizer = byte_tokenizer()
    writing("the γάτα", tokenizer)
    asked = job(**settings)
    evaluate(model, tokenizer, asked)
    assert predictions(asked)[2]["exact_match"] == exact


def test_examples_and_contexts_are_shortened_but_not_questions(model, byte_tokenizer, job):
    asked = job(shots=1, max_prompt_tokens=85, max_new_tokens=2)
    details = evaluate(model, byte_tokenizer(), asked).details
    rows = predictions(asked)
    assert all(row["prompt_tokens"] <= 85 for row in rows)
    assert {row["shots"] for row in rows} == {0}
    assert details["cut_contexts"] == sum(
        not any(context in row["prompt"] for context, *_ in TEXTS["greek"]) for row in rows
    )
    assert details["cut_contexts"] > 0
    assert all(f"\nΕρώτηση: {row['source']}\nΑπάντηση:" in row["prompt"] for row in rows)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"normalization": "f1"}, "normalization: 'f1' is not one of 'mlqa', 'squad'"),
        ({"max_prompt_tokens": 60}, "a prompt of 60 tokens has no room for question 0001"),
        ({"shots": 4}, "4 examples leave none"),
    ],
)
def test_an_invalid_question_setting_is_an_error_before_texts_are_generated(
    model, byte_tokenizer, job, monkeypatch, settings, message
):
    monkeypatch.setattr(model, "generate", None)
    with pytest.raises(UserError, match=message):
        evaluate(model, byte_tokenizer(), job(**settings))
