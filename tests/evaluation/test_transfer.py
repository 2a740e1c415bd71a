"""Tasks that fine-tune: a tiny encoder learns a rule and is tested on it."""

import json
import random
from pathlib import Path

import pytest
import torch

from lexigraft.artifacts.cards import write_card
from lexigraft.corpus.examples import prepare_examples
from lexigraft.errors import UserError
from lexigraft.evaluation.task_kinds import task_kind
from lexigraft.evaluation.tasks import classification, extractive_qa, tagging
from lexigraft.evaluation.tasks.tagging import word_tokens
from lexigraft.evaluation.transfer import FineTuning, Transfer
from lexigraft.source.model import load_model

NAMES = ["Ada", "Bob", "Eve", "Max"]
THINGS = ["book", "table", "lesson", "video", "class", "file"]
LEARNED = {"epochs": 12, "batch_size": 8, "learning_rate": 5e-3}


@pytest.fixture
def model(roberta_folder):
    return load_model(roberta_folder, torch.float32)


@pytest.fixture
def job(tmp_path):
    """`job(kind, rows, settings)`: the same rows to learn from and to be tested on."""

    def build(kind, rows, columns, labels=None, tests=("te", "english"), **settings):
        file = tmp_path / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        text = {"loader": "jsonl", "path": str(file)}
        given = {"rows": task_kind(kind).rows, "columns": columns, "labels": labels, "text": text}
        folder = tmp_path / "examples"
        files, facts = prepare_examples(given, folder)
        write_card(folder, {}, files, **facts)
        out = tmp_path / "evaluation"
        out.mkdir(exist_ok=True)
        return {
            "settings": {"kind": kind, **settings},
            "inputs": {
                "cell": "cell",
                "examples": {"train": str(folder), "tests": dict.fromkeys(tests, str(folder))},
            },
            "outputs": {"folder": str(out), "predictions": str(out / "predictions.jsonl")},
            "task": kind,
            "seed": [0, "evaluation", "te", kind, 0],
        }

    return build


def predictions(job):
    return [json.loads(line) for line in Path(job["outputs"]["predictions"]).open()]


def drawn(count=48):
    chance = random.Random(1)
    return [(chance.choice(NAMES), chance.choice(THINGS), chance.random() < 0.5)
            for _ in range(count)]  # fmt: skip


def nli(job, **settings):
    rows = [
        {"a": f"{name} has a {thing}", "b": f"the {thing if same else 'cat'}", "y": int(same)}
        for name, thing, same in drawn()
    ]
    columns = {"first": "a", "second": "b", "label": "y"}
    return job("classification", rows, columns, ["no", "yes"], length=32, **settings)


def test_pairs_of_texts_are_classified(model, roberta_tokenizer, job):
    described = nli(job, **LEARNED)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = classification.evaluate(model, roberta_tokenizer, described)
    assert found.metrics["accuracy"] == found.metrics["english_accuracy"] > 0.9
    every = predictions(described)
    rows = [row for row in every if row["test"] == "te"]
    assert [row["id"] for row in every[48:]] == [f"english-{row['id'][3:]}" for row in rows]
    assert len(rows) == 48 and rows[0]["id"] == "te-000001"
    assert sum(row["accuracy"] for row in rows) / 48 == found.metrics["accuracy"]
    assert {row["output"] for row in rows} <= {"no", "yes"}
    assert found.details == {"train_examples": 48, "test_examples": {"te": 48, "english": 48}}
    # The cell itself learns nothing, and leaves no file behind.
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())
    assert {path.name for path in Path(described["outputs"]["folder"]).iterdir()} == {
        "predictions.jsonl"
    }


def test_a_run_is_reproducible_and_another_run_draws_other_examples(model, roberta_tokenizer, job):
    described = nli(job, epochs=1, train_examples=20, test_examples=15)
    one = classification.evaluate(model, roberta_tokenizer, described)
    rows = predictions(described)
    assert classification.evaluate(model, roberta_tokenizer, described) == one
    assert predictions(described) == rows
    assert one.details == {"train_examples": 20, "test_examples": {"te": 15, "english": 15}}
    described["seed"][-1] = 1
    classification.evaluate(model, roberta_tokenizer, described)
    assert [row["id"] for row in predictions(described)] != [row["id"] for row in rows]


def test_the_error_about_a_diverged_head_names_its_cell_and_task(model, roberta_tokenizer, job):
    described = nli(job, epochs=2, batch_size=8, learning_rate=1e38)
    with pytest.raises(UserError, match=r"cell: the loss of fine-tuning for task 'classification'"):
        classification.evaluate(model, roberta_tokenizer, described)


def test_names_are_tagged(model, roberta_tokenizer, job):
    rows = [
        {"w": ["The", thing, "of", name, "Smith" if two else "is"], "t": [0, 0, 0, 1, 2 * two]}
        for name, thing, two in drawn()
    ]
    labels = ["O", "B-PER", "I-PER"]
    described = job("tagging", rows, {"words": "w", "tags": "t"}, labels, length=32, **LEARNED)
    found = tagging.evaluate(model, roberta_tokenizer, described)
    assert found.metrics["f1"] == found.metrics["english_f1"] > 90
    row = predictions(described)[0]
    assert len(row["output"].split()) == len(row["source"].split()) == 5


def qa(job, tests, **settings):
    rows = []
    for name, thing, first in drawn(40):
        begin = "Once upon a time in a small town. " if first else ""
        context = f"{begin}It is said that {name} wrote a {thing}. All of it is long ago by now."
        answers = {"text": [name], "answer_start": [context.index(name)]}
        rows.append({"q": "Who wrote?", "c": context, "answers": answers})
    columns = {
        "question": "q", "context": "c", "answers": "answers.text",
        "starts": "answers.answer_start",
    }  # fmt: skip
    return job("extractive_qa", rows, columns, tests=tests, **settings)


@pytest.mark.parametrize("length", [48, 128])
def test_answers_are_found_in_contexts_of_one_or_several_windows(
    model, roberta_tokenizer, job, length
):
    described = qa(job, ("te",), length=length, stride=12, answer_tokens=5, **LEARNED)
    found = extractive_qa.evaluate(model, roberta_tokenizer, described)
    assert found.metrics["f1"] > 90 and found.metrics["exact_match"] > 90
    rows = predictions(described)
    assert {row["reference"] for row in rows} == set(NAMES)
    assert sum(row["f1"] for row in rows) / len(rows) == pytest.approx(found.metrics["f1"])


def logits_of(model, tokenizer, described, validated=(), **settings):
    """The logits of the validation examples after each epoch and of the test, and the details.

    `validated` are the scores that the epochs get, in order.
    """
    from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding

    task = Transfer(model, described, FineTuning(**LEARNED | settings))
    scores, logits = iter([*validated, 0.0]), []
    encoded = tokenizer([row["second"] for row in task.train], max_length=task.length)
    features = [{"input_ids": ids, "labels": at % 2} for at, ids in enumerate(encoded["input_ids"])]

    def score(examples, predict):
        logits.append(predict(features[:4]))
        return {"accuracy": next(scores)}, [{}] * len(examples)

    head, collator = AutoModelForSequenceClassification, DataCollatorWithPadding(tokenizer)
    return logits, task.measure(head, collator, features, score).details


def test_the_best_epoch_of_the_validation_examples_is_tested(model, roberta_tokenizer, job):
    described = nli(job, tests=("te",))
    folders = described["inputs"]["examples"]
    folders["validation"] = folders["train"]
    scores = [0.2, 0.9, 0.9, 0.1]
    logits, details = logits_of(model, roberta_tokenizer, described, scores, epochs=4)
    assert details["validation_scores"] == scores and details["epoch"] == 2
    assert (logits[4] == logits[1]).all() and (logits[4] != logits[3]).any()


def test_the_only_step_of_a_fine_tuning_learns(model, roberta_tokenizer, job):
    described = nli(job, tests=("te",))
    step = {"epochs": 1, "batch_size": 48}
    learned, resting = (
        logits_of(model, roberta_tokenizer, described, **step, learning_rate=rate)[0][0]
        for rate in (1e-2, 1e-20)
    )
    assert abs(learned - resting).max() > 1e-3


@pytest.mark.parametrize("name", ["roberta_tokenizer", "mistral_tokenizer", "bert_tokenizer"])
def test_the_first_token_of_each_word_begins_where_the_word_does(name, request, english, greek):
    tokenizer = request.getfixturevalue(name)
    for sentence in [*english[:20], *greek[:20]]:
        words = sentence.split()
        text = " ".join(words)
        encoded = tokenizer(
            text, return_offsets_mapping=True, return_special_tokens_mask=True, truncation=False
        )
        is_text = [not special for special in encoded["special_tokens_mask"]]
        places = word_tokens(words, encoded["offset_mapping"], is_text)
        begin = 0
        for word, place in zip(words, places, strict=True):
            assert place is not None and is_text[place]
            first, last = encoded["offset_mapping"][place]
            shown = text[first:last].strip()
            assert shown and (word.startswith(shown) or shown.startswith(word))
            assert first <= begin < last
            begin += len(word) + 1
