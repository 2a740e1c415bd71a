import json
from pathlib import Path

import pytest
import sacrebleu
import torch

from lexigraft.errors import UserError
from lexigraft.evaluation.tasks.translation import evaluate
from lexigraft.inference.text_encoding import encode


def predictions(job) -> list[dict]:
    lines = Path(job["outputs"]["predictions"]).read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture
def job(make_job):
    return make_job("translation", max_new_tokens=8, batch_size=2)


def test_scores_are_those_of_the_predictions_on_disk(model, byte_tokenizer, job):
    measured = evaluate(model, byte_tokenizer(), job)
    rows = predictions(job)
    outputs, references = [r["output"] for r in rows], [r["reference"] for r in rows]
    assert measured.metrics["chrf"] == sacrebleu.corpus_chrf(outputs, [references]).score
    mean = sum(row["chrf"] for row in rows) / len(rows)
    assert measured.metrics["chrf_sentence_mean"] == pytest.approx(mean)
    assert measured.metrics["samples"] == len(rows) == 4


def test_predictions_have_id_prompt_and_reference(model, byte_tokenizer, job):
    evaluate(model, byte_tokenizer(), job)
    row = predictions(job)[2]
    assert row["id"] == "s2"
    assert row["prompt"] == "Μεταφράστε τα αγγλικά στα ελληνικά:\nyes ="
    assert row["reference"] == "ναι"
    assert row["prompt_tokens"] == 1 + len(row["prompt"].encode())  # a token is a byte here


def test_new_tokens_are_counted_in_prompts_and_outputs(model, byte_tokenizer, job, monkeypatch):
    tokenizer = byte_tokenizer()
    vocabulary = Path(job["inputs"]["cell"]).parent / "tokenizer" / "vocabulary.json"
    new = [{"id": number} for number in range(30, len(tokenizer))]
    vocabulary.write_text(json.dumps({"new_tokens": new}))

    def generate(ids, **_):  # one old token, two new ones, the end
        return torch.cat([ids, torch.tensor([[29, 30, 200, 0]] * len(ids))], dim=1)

    monkeypatch.setattr(model, "generate", generate)
    metrics = evaluate(model, tokenizer, job).metrics
    assert metrics["new_token_share_output"] == pytest.approx(2 / 3)
    assert metrics["output_tokens"] == 4 * 3
    texts = [row["prompt"] for row in predictions(job)]
    prompts = [token for ids in encode(tokenizer, texts) for token in ids]
    assert metrics["new_token_share_input"] == sum(t >= 30 for t in prompts) / len(prompts)
    assert 0 < metrics["new_token_share_input"] < 1


def test_a_corpus_without_parallel_text_is_named(model, byte_tokenizer, job):
    (Path(job["inputs"]["corpus"]) / "tasks" / "translation.jsonl").unlink()
    with pytest.raises(UserError, match="no parallel sentences"):
        evaluate(model, byte_tokenizer(), job)


def test_the_alma_prompt_is_that_of_training_in_both_directions(model, byte_tokenizer, make_job):
    asked = {}
    for into_english in (False, True):
        job = make_job(
            "translation", prompt="alma", into_english=into_english, max_new_tokens=2, samples=None
        )
        evaluate(model, byte_tokenizer(), {**job, "language_name": "Greek"})
        asked[into_english] = predictions(job)[2]
    assert asked[False]["prompt"] == "Translate this from English to Greek:\nEnglish: yes\nGreek:"
    assert (asked[False]["source"], asked[False]["reference"]) == ("yes", "ναι")
    assert asked[True]["prompt"] == "Translate this from Greek to English:\nGreek: ναι\nEnglish:"
    assert (asked[True]["source"], asked[True]["reference"]) == ("ναι", "yes")


def test_examples_precede_sentences_and_are_not_tested(model, byte_tokenizer, make_job):
    job = make_job("translation", prompt="names", shots=2, max_new_tokens=2)
    details = evaluate(model, byte_tokenizer(), job).details
    rows = predictions(job)
    pairs = {"s0": ("one", "ένα"), "s1": ("good morning world", "καλημέρα κόσμε"),
             "s2": ("yes", "ναι"), "s3": ("a b", "γ")}  # fmt: skip
    examples = details["examples"]
    assert {one["id"] for one in examples} | {row["id"] for row in rows} == set(pairs)
    assert len(rows) == len(examples) == 2
    for one in examples:
        english, greek = pairs[one["id"]]
        assert one["text"] == f"English: {english}\nGreek: {greek}\n"
    before = "".join(one["text"] for one in examples)
    for row in rows:
        assert row["prompt"] == f"English: {row['source']}\nGreek:"
        assert row["prompt_tokens"] == 1 + len((before + row["prompt"]).encode())
