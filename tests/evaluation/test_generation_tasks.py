"""Translation, summarization and question answering: what is asked, scored and stored."""

import json
from pathlib import Path

import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.evaluation.task_kinds import task_kind
from lexigraft.inference.text_encoding import encode


@pytest.fixture
def evaluate(model, byte_tokenizer):
    """Evaluate the job of a task; returns the measurement and the rows of predictions."""

    def run(job, tokenizer=None):
        kind = task_kind(job["settings"]["kind"])
        measured = kind.evaluate(model, tokenizer or byte_tokenizer(), job)
        lines = Path(job["outputs"]["predictions"]).read_text("utf-8").split("\n")
        return measured, [json.loads(line) for line in lines if line]

    return run


# ---- translation -------------------------------------------------------------------------------


def test_new_tokens_are_counted_in_prompts_and_outputs(
    model, byte_tokenizer, evaluate, make_job, monkeypatch
):
    job, tokenizer = make_job("translation"), byte_tokenizer()
    vocabulary = Path(job["inputs"]["cell"]).parent / "tokenizer" / "vocabulary.json"
    new = [{"id": number} for number in range(30, len(tokenizer))]
    vocabulary.write_text(json.dumps({"new_tokens": new}))

    def generate(ids, **_):  # one old token, two new ones, the end
        return torch.cat([ids, torch.tensor([[29, 30, 200, 0]] * len(ids))], dim=1)

    monkeypatch.setattr(model, "generate", generate)
    measured, rows = evaluate(job)
    metrics = measured.metrics
    assert metrics["new_token_share_output"] == pytest.approx(2 / 3)
    assert metrics["output_tokens"] == 4 * 3
    assert metrics["samples"] == len(rows) == 4
    prompts = [t for ids in encode(tokenizer, [row["prompt"] for row in rows]) for t in ids]
    assert metrics["new_token_share_input"] == sum(t >= 30 for t in prompts) / len(prompts)
    assert rows[2]["id"] == "s2" and rows[2]["reference"] == "ναι"
    assert rows[2]["prompt"] == "Μεταφράστε τα αγγλικά στα ελληνικά:\nyes ="
    assert metrics["chrf_sentence_mean"] == pytest.approx(sum(row["chrf"] for row in rows) / 4)


@pytest.mark.parametrize(("kind", "rows"), [
    ("translation", "no parallel sentences"), ("summarization", "no articles"),
])  # fmt: skip
def test_a_corpus_without_tests_is_named(evaluate, make_job, kind, rows):
    job = make_job(kind)
    (Path(job["inputs"]["corpus"]) / "tasks" / f"{kind}.jsonl").unlink()
    with pytest.raises(UserError, match=rf"{kind}\.jsonl: {rows}"):
        evaluate(job)


def test_the_alma_prompt_is_that_of_training_in_both_directions(evaluate, make_job):
    options = {"prompt": "alma", "max_new_tokens": 2, "samples": None}
    into_greek, into_english = (
        evaluate(make_job("translation", into_english=into_english, **options))[1][2]
        for into_english in (False, True)
    )
    assert into_greek["prompt"] == "Translate this from English to Greek:\nEnglish: yes\nGreek:"
    assert (into_greek["source"], into_greek["reference"]) == ("yes", "ναι")
    assert into_english["prompt"] == "Translate this from Greek to English:\nGreek: ναι\nEnglish:"
    assert (into_english["source"], into_english["reference"]) == ("ναι", "yes")


def test_examples_precede_sentences_and_are_not_tested(evaluate, make_job):
    job = make_job("translation", prompt="names", shots=2, max_new_tokens=2)
    measured, rows = evaluate(job)
    pairs = {"s0": ("one", "ένα"), "s1": ("good morning world", "καλημέρα κόσμε"),
             "s2": ("yes", "ναι"), "s3": ("a b", "γ")}  # fmt: skip
    examples = {example["id"]: example["text"] for example in measured.details["examples"]}
    assert {*examples} | {row["id"] for row in rows} == set(pairs)
    assert len(rows) == len(examples) == 2
    for name, text in examples.items():
        english, greek = pairs[name]
        assert text == f"English: {english}\nGreek: {greek}\n"
    for row in rows:
        assert row["prompt"] == f"English: {row['source']}\nGreek:"
        prompt = "".join(examples.values()) + row["prompt"]
        assert row["prompt_tokens"] == 1 + len(prompt.encode())  # a token is a byte here


@pytest.mark.parametrize(("skip", "output"), [(False, ""), (True, "ναι")])
def test_the_first_line_with_text_is_the_output_if_empty_lines_are_skipped(
    byte_tokenizer, evaluate, make_job, writing, skip, output
):
    tokenizer = byte_tokenizer()
    writing("\n \n ναι", tokenizer)
    _, rows = evaluate(make_job("translation", skip_empty_lines=skip, samples=1), tokenizer)
    assert [row["output"] for row in rows] == [output]


# ---- summarization -----------------------------------------------------------------------------


def test_a_model_that_writes_the_reference_scores_by_hand(
    byte_tokenizer, evaluate, make_job, writing
):
    tokenizer = byte_tokenizer()
    writing("νέο σχολείο", tokenizer)
    measured, rows = evaluate(make_job("summarization"), tokenizer)
    assert {row["id"]: row["rouge_l"] for row in rows} == {"a0": 0, "a1": 0, "a2": 0, "a3": 100}
    assert measured.metrics["rouge_l"] == 25
    assert measured.details["unfinished_outputs"] == measured.details["empty_outputs"] == 0


def test_truncated_articles_are_counted_and_stored(evaluate, make_job):
    measured, rows = evaluate(make_job("summarization", max_new_tokens=4, max_prompt_tokens=190))
    details = measured.details
    assert (details["cut_articles"], details["prompt_limit"]) == (3, 190)
    assert all(row["prompt_tokens"] <= 190 for row in rows)
    assert [row["source"] for row in rows][1] == "Βροχή."
    assert rows[0]["source"] == "Ο ήλιος βγήκε νωρίς.\nΈκανε"[: len(rows[0]["source"])]


def test_a_prompt_may_fill_the_context_of_rotary_positions(model, evaluate, make_job):
    model.config.max_position_embeddings = 190
    options = {"max_new_tokens": 20, "samples": None}
    within, _ = evaluate(make_job("summarization", **options))
    beyond, rows = evaluate(make_job("summarization", beyond_context=True, **options))
    assert (within.details["prompt_limit"], beyond.details["prompt_limit"]) == (170, 190)
    assert 170 < max(row["prompt_tokens"] for row in rows) <= 190
    model.config.rope_parameters = None  # learned positions end with the context
    measured, _ = evaluate(make_job("summarization", beyond_context=True, **options))
    assert measured.details["prompt_limit"] == 170


def test_the_first_articles_are_summarized_after_the_first_examples(evaluate, make_job):
    job = make_job(
        "summarization", prompt="cw2v", select="first", samples=2, shots=1, max_new_tokens=2
    )
    for run in (0, 1):
        job["seed"][-1] = run
        measured, rows = evaluate(job)
        details = measured.details
        assert details["before_examples"].startswith("Summarize the following Greek article(s)")
        assert details["around_article"] == ("Greek article: ", "\nGreek summary:")
        assert [example["id"] for example in details["examples"]] == ["a0"]
        assert [row["id"] for row in rows] == ["a1", "a2"]


def test_examples_precede_articles_if_they_fit(evaluate, make_job):
    job = make_job("summarization", shots=1, max_new_tokens=2, max_prompt_tokens=385)
    measured, rows = evaluate(job)
    [example] = measured.details["examples"]
    before, after = measured.details["around_article"]
    for row in rows:
        prompt = f"{example['text'] if row['shots'] else ''}{before}{row['source']}{after}"
        assert row["prompt_tokens"] == 1 + len(prompt.encode()) <= 385
    assert {row["id"]: row["shots"] for row in rows} == {"a0": 0, "a2": 1, "a3": 1}


# ---- question answering ------------------------------------------------------------------------

QUESTIONS = [
    ("Η Άννα μένει στο Βόλο.", "Πού μένει η Άννα;", ["στο Βόλο", "Βόλο"]),
    ("Το τρένο φεύγει στις 8.", "Πότε φεύγει;", ["στις 8"]),
    ("Ο Νίκος έχει γάτα.", "Τι έχει ο Νίκος;", ["γάτα"]),
    ("Βρέχει από το πρωί.", "Τι καιρό κάνει;", ["Βρέχει"]),
]


@pytest.fixture
def ask(make_job, tmp_path):
    """A job with the Greek questions."""

    def build(**settings):
        job = make_job("question_answering", **{"max_new_tokens": 8, **settings})
        rows = (
            {"id": f"{at:04d}", "context": context, "question": question, "answers": answers}
            for at, (context, question, answers) in enumerate(QUESTIONS, start=1)
        )
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "test_set.jsonl").write_text(text, "utf-8")
        job["inputs"]["test_sets"] = {"tests": {"greek": str(tmp_path)}}
        return {**job, "tested": {"greek": "el"}}

    return build


def test_a_question_is_asked_with_its_text_and_scored_by_the_best_reference(
    byte_tokenizer, evaluate, ask, writing
):
    tokenizer = byte_tokenizer()
    writing("«Βόλο»!", tokenizer)
    measured, rows = evaluate(ask(), tokenizer)
    row = rows[1]
    assert row["prompt"] == "Κείμενο: Το τρένο φεύγει στις 8.\nΕρώτηση: Πότε φεύγει;\nΑπάντηση:"
    assert (row["id"], row["test"], row["source"]) == ("greek-0002", "greek", "Πότε φεύγει;")
    assert (row["reference"], row["shots"]) == ("στις 8", 0)
    assert measured.details["tests"] == {"greek": {"drawn_from": 4, "questions": 4}}
    assert [row["exact_match"] for row in rows] == [100, 0, 0, 0]
    assert measured.metrics["exact_match"] == measured.metrics["f1"] == 25
    # The labels are in the language of the question (SALT, 4.4).
    _, rows = evaluate(ask(questions_in="en"), tokenizer)
    assert rows[1]["prompt"] == "Context: Το τρένο φεύγει στις 8.\nQuestion: Πότε φεύγει;\nAnswer:"


@pytest.mark.parametrize(
    ("settings", "exact"), [({}, 0), ({"answers_in": "en"}, 100), ({"normalization": "squad"}, 100)]
)
def test_grammatical_articles_are_those_of_the_language_of_the_answers(
    byte_tokenizer, evaluate, ask, writing, settings, exact
):
    tokenizer = byte_tokenizer()
    writing("the γάτα", tokenizer)
    _, rows = evaluate(ask(**settings), tokenizer)
    assert rows[2]["exact_match"] == exact


def test_examples_and_contexts_are_shortened_but_not_questions(evaluate, ask):
    measured, rows = evaluate(ask(shots=1, max_prompt_tokens=85, max_new_tokens=2))
    assert all(row["prompt_tokens"] <= 85 for row in rows)
    assert {row["shots"] for row in rows} == {0}
    n_cut = sum(not any(context in row["prompt"] for context, *_ in QUESTIONS) for row in rows)
    assert measured.details["cut_contexts"] == n_cut > 0
    assert all(f"\nΕρώτηση: {row['source']}\nΑπάντηση:" in row["prompt"] for row in rows)


# ---- bad settings ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("summarization", {"select": "longest"}, "select: 'longest' is not one of 'random', "),
        ("summarization", {"prompt": "poem"}, "'poem' is not known"),
        ("summarization", {"rouge_tokenizer": "no/such/folder"}, "rouge_tokenizer: 'no/such/fold"),
        ("summarization", {"max_prompt_tokens": 5}, "no room for an article"),
        (
            "question_answering",
            {"max_prompt_tokens": 60},
            "has no room for question 0001",
        ),
        ("question_answering", {"shots": 4}, "4 examples leave none"),
    ],
)
def test_an_invalid_setting_is_an_error_before_texts_are_generated(
    kind, settings, message, model, evaluate, ask, make_job, monkeypatch
):
    monkeypatch.setattr(model, "generate", None)
    job = ask(**settings) if kind == "question_answering" else make_job(kind, **settings)
    with pytest.raises(UserError, match=message):
        evaluate(job)
