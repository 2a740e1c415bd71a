import json
from pathlib import Path
from statistics import median

import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.evaluation.tasks import speed
from lexigraft.evaluation.tasks.speed import evaluate
from lexigraft.inference.generation import generate
from lexigraft.inference.text_encoding import encode


@pytest.fixture
def job(make_job):
    return make_job("speed", batch_sizes=[1, 2], prompts=4, new_tokens=5, warmup=1, repeats=3)


@pytest.fixture
def measured(model, byte_tokenizer, job):
    return evaluate(model, byte_tokenizer(), job)


def test_rates_are_medians_over_repeats(model, byte_tokenizer, job, monkeypatch):
    """Three passes over four prompts, of 4, 8 and 5 seconds; a tenth of each reads the prompts."""
    seconds = iter([1.0, 4.0, 8.0, 5.0])  # the first warms up

    tokenizer = byte_tokenizer()

    def timed(model, tokenizer, prompts, **_):
        took = next(seconds)
        return took / 10, took * 9 / 10, [tokenizer("ab")["input_ids"]] * len(prompts)

    monkeypatch.setattr(speed, "time_pass", timed)
    job["settings"]["batch_sizes"] = [2]
    metrics = evaluate(model, tokenizer, job).metrics
    assert metrics["tokens_per_second_batch_2"] == 4 * 5 / 5
    assert metrics["spread_batch_2"] == pytest.approx((8 - 4) / 5)
    assert metrics["first_token_seconds_batch_2"] == pytest.approx(0.5 / 2)
    assert metrics["steps_per_second_batch_2"] == pytest.approx(2 * 4 / 4.5)


def test_the_same_text_costs_its_decoding_steps(measured, job):
    corpus = Path(job["inputs"]["corpus"])
    lines = (corpus / "heldout.txt").read_text("utf-8").splitlines()
    characters, tokens = sum(map(len, lines)), sum(len(line.encode()) for line in lines)
    assert measured.metrics["steps_per_sentence"] == tokens / len(lines)
    for size in (1, 2):
        step = 1 / measured.metrics[f"steps_per_second_batch_{size}"]
        expected = characters / (tokens / size * step)
        rate = measured.metrics[f"same_text_characters_per_second_batch_{size}"]
        assert rate == pytest.approx(expected)
        in_bytes = measured.metrics[f"same_text_bytes_per_second_batch_{size}"]
        assert in_bytes / rate == pytest.approx(tokens / characters)  # a token is a byte here


def test_exactly_new_tokens_are_generated_for_every_prompt(model, byte_tokenizer, job, monkeypatch):
    lengths, inner = [], model.generate

    def watched(ids, **options):
        rows = inner(ids, **options)
        lengths.append(rows.shape[1] - ids.shape[1])
        return rows

    # Let the very first token end the text, were it not suppressed.
    [ids] = encode(byte_tokenizer(), ["Μ"])
    first = inner(torch.tensor([ids]), max_new_tokens=1)
    model.generation_config.eos_token_id = [0, int(first[0, -1])]
    monkeypatch.setattr(model, "generate", watched)
    evaluate(model, byte_tokenizer(), job)
    assert set(lengths) == {5}
    assert len(lengths) == (1 + 3 * 4) + (1 + 3 * 2)


def test_answers_are_those_of_the_task_and_all_their_tokens_and_seconds_count(
    model, byte_tokenizer, job, monkeypatch
):
    """By the formula of the paper: generated tokens by the time of reading and writing."""
    tokenizer, inner, seconds = byte_tokenizer(), speed.time_pass, []

    def timed(*arguments, stops=None, **options):
        reading, decoding, rows = inner(*arguments, stops=stops, **options)
        seconds.extend([reading + decoding] if stops else [])
        return reading, decoding, rows

    monkeypatch.setattr(speed, "time_pass", timed)
    job["settings"] |= {"answers": True, "batch_sizes": [2], "new_tokens": 12}
    new = range(60, len(tokenizer))
    described = {"new_tokens": [{"id": token} for token in new]}
    Path(job["inputs"]["tokenizer"], "vocabulary.json").write_text(json.dumps(described))
    # Let half of the answers end early: at a token that the model likes in them.
    prompts = dict(enumerate(evaluate(model, tokenizer, job).details["prompts"]))
    liked = generate(model, tokenizer, prompts, max_new_tokens=12)[0].tokens[-1]
    model.generation_config.eos_token_id = [0, liked]
    seconds.clear()
    metrics = evaluate(model, tokenizer, job).metrics
    answers = generate(model, tokenizer, prompts, max_new_tokens=12).values()
    assert len(seconds) == 3 and min(answer.steps for answer in answers) < 12
    rate = sum(answer.steps for answer in answers) / median(seconds)
    assert metrics["answer_tokens_per_second_batch_2"] == pytest.approx(rate)
    characters = sum(len(answer.text) for answer in answers) / median(seconds)
    assert metrics["answer_characters_per_second_batch_2"] == pytest.approx(characters)
    tokens = [token for answer in answers for token in answer.tokens]
    share = sum(token in new for token in tokens) / len(tokens)
    assert 0 < share < 1 and metrics["answer_new_token_share_batch_2"] == pytest.approx(share)


def test_details_have_the_conditions_of_the_measurement(measured):
    details = measured.details
    assert details["prompts"][0] == "Μεταφράστε τα αγγλικά στα ελληνικά:\none ="
    assert details["prompt_tokens"] == [1 + len(text.encode()) for text in details["prompts"]]
    assert details["new_tokens"] == 5
    assert details["threads"] >= 1
    assert (details["device"], details["precision"]) == ("cpu", "float32")
    timing = details["batch_2"]
    assert len(timing["seconds"]) == len(timing["seconds_reading_prompts"]) == 3
    assert timing["steps"] == 2 * 4
    json.dumps(details, allow_nan=False)


def test_truncated_articles_can_be_the_prompts(model, byte_tokenizer, make_job):
    options = {"batch_sizes": [1], "prompts": 2, "new_tokens": 2, "repeats": 1}
    job = make_job("speed", prompts_from="summarization", max_prompt_tokens=190, **options)
    details = evaluate(model, byte_tokenizer(), job).details
    first, second = details["prompts"]
    assert first.startswith("Γράψε μια σύντομη περίληψη")
    assert first.endswith(" Περίληψη:")
    assert "όλη μέρα" not in first
    assert " Άρθρο: Βροχή. " in second
    assert max(details["prompt_tokens"]) <= 190


def test_settings_that_do_not_fit_together_are_refused(model, byte_tokenizer, make_job):
    for settings, message in (
        ({"batch_sizes": [3], "prompts": 4}, "prompts: 4 is not a multiple of batch size 3"),
        ({"new_tokens": 1}, "new_tokens: 1 is not at least 2"),
        ({"prompts_from": "poems"}, "prompts_from: 'poems' is not one of"),
    ):
        with pytest.raises(UserError, match=message):
            evaluate(model, byte_tokenizer(), make_job("speed", **settings))
