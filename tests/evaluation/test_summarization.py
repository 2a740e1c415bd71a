import json
from pathlib import Path

import pytest

from lexigraft.errors import UserError
from lexigraft.evaluation.metrics.rouge_l import ScriptTokenizer, rouge_l
from lexigraft.evaluation.tasks.summarization import evaluate


def predictions(job) -> list[dict]:
    lines = Path(job["outputs"]["predictions"]).read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


@pytest.fixture
def job(make_job):
    return make_job("summarization", max_new_tokens=8, batch_size=2)


def test_scores_are_those_of_the_predictions_on_disk(model, byte_tokenizer, job):
    measured = evaluate(model, byte_tokenizer(), job)
    rows = predictions(job)
    scores = rouge_l(
        [row["output"] for row in rows], [row["reference"] for row in rows], ScriptTokenizer()
    )
    assert [row["rouge_l"] for row in rows] == scores
    assert measured.metrics["rouge_l"] == pytest.approx(sum(scores) / 4)
    assert measured.metrics["samples"] == len(rows) == 4


def test_a_model_that_writes_the_reference_scores_by_hand(model, byte_tokenizer, job, writing):
    tokenizer = byte_tokenizer()
    writing("νέο σχολείο", tokenizer)
    measured = evaluate(model, tokenizer, job)
    scores = {row["id"]: row["rouge_l"] for row in predictions(job)}
    assert scores == {"a0": 0, "a1": 0, "a2": 0, "a3": 100}
    assert measured.metrics["rouge_l"] == 25
    assert measured.details["unfinished_outputs"] == measured.details["empty_outputs"] == 0


def test_truncated_articles_are_counted_and_stored(model, byte_tokenizer, make_job):
    job = make_job("summarization", max_new_tokens=4, max_prompt_tokens=190)
    details = evaluate(model, byte_tokenizer(), job).details
    rows = predictions(job)
    assert (details["cut_articles"], details["prompt_limit"]) == (3, 190)
    assert all(row["prompt_tokens"] <= 190 for row in rows)
    assert [row["source"] for row in rows][1] == "Βροχή."
    assert rows[0]["source"] == "Ο ήλιος βγήκε νωρίς.\nΈκανε"[: len(rows[0]["source"])]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"select": "longest"}, "select: 'longest' is not one of 'random', 'shortest', 'first'"),
        ({"prompt": "poem"}, "'poem' is not known"),
        ({"rouge_tokenizer": "no/such/folder/here"}, "rouge_tokenizer: 'no/such/folder/here'"),
        ({"max_prompt_tokens": 5}, "no room for an article"),
    ],
)
def test_an_invalid_setting_is_an_error_before_texts_are_generated(
    settings, message, model, byte_tokenizer, make_job, monkeypatch
):
    monkeypatch.setattr(model, "generate", None)
    with pytest.raises(UserError, match=message):
        evaluate(model, byte_tokenizer(), make_job("summarization", **settings))


def test_a_corpus_without_articles_is_named(model, byte_tokenizer, job):
    (Path(job["inputs"]["corpus"]) / "tasks" / "summarization.jsonl").write_text("")
    with pytest.raises(UserError, match=r"summarization\.jsonl: no articles"):
        evaluate(model, byte_tokenizer(), job)


def test_the_first_articles_are_summarized_after_the_first_examples(
    model, byte_tokenizer, make_job
):
    job = make_job(
        "summarization", prompt="cw2v", select="first", samples=2, shots=1, max_new_tokens=2
    )
    for run in (0, 1):
        job["seed"][-1] = run
        details = evaluate(model, byte_tokenizer(), job).details
        assert details["before_examples"].startswith("Summarize the following Greek article(s)")
        assert details["around_article"] == ("Greek article: ", "\nGreek summary:")
        assert [one["id"] for one in details["examples"]] == ["a0"]
        assert [row["id"] for row in predictions(job)] == ["a1", "a2"]


def test_examples_precede_articles_if_they_fit(model, byte_tokenizer, make_job):
    job = make_job("summarization", shots=1, max_new_tokens=2, max_prompt_tokens=385)
    details = evaluate(model, byte_tokenizer(), job).details
    rows = predictions(job)
    [example] = details["examples"]
    before, after = details["around_article"]
    assert example["text"].startswith(before)
    assert example["id"] not in {row["id"] for row in rows}
    assert len(rows) == 3
    for row in rows:
        prompt = f"{example['text'] if row['shots'] else ''}{before}{row['source']}{after}"
        assert row["prompt_tokens"] == 1 + len(prompt.encode()) <= 385
    assert {row["id"]: row["shots"] for row in rows} == {"a0": 0, "a2": 1, "a3": 1}
