"""Theorem 2 of CW2V on a random model: rows in the hull leave greedy output as it is."""

import json

import numpy as np
import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.evaluation.tasks.greedy_agreement import evaluate
from lexigraft.initialization.graft import graft
from lexigraft.initialization.recipe import DenseRows
from lexigraft.initialization.registry import initializer
from lexigraft.source.model import load_model

MERGES = (("t", "h"), ("th", "e"), ("Î", "±"), ("Î", "²"))


@pytest.fixture
def source(model, byte_tokenizer, make_job, tmp_path):
    """The random model as a source, beside the job's cell; returns its folder."""
    folder = tmp_path / "model"
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    (tmp_path / "source").mkdir()
    described = {"kind": "folder", "path": str(folder), "revision": None}
    (tmp_path / "source" / "source.json").write_text(json.dumps(described))
    return folder


@pytest.fixture
def measure(source, byte_tokenizer, make_job, tmp_path):
    """Graft what an initializer made onto the source, and measure it."""

    def run(made, tokenizer=None, change=None, **settings):
        target = tokenizer or byte_tokenizer(*MERGES)
        if isinstance(made, str):
            made = initializer(made).fit(byte_tokenizer(), target)
        grafted = graft(load_model(source, torch.float32), target, made)
        if change:
            change(grafted)
        job = make_job("greedy_agreement", **{"prompt_tokens": 6, "max_new_tokens": 8} | settings)
        job["inputs"]["source"] = str(tmp_path / "source")
        return evaluate(grafted, target, job), grafted

    return run


def source_of(count, tokenizer):
    return np.append(np.arange(len(tokenizer)), np.full(count, -1))


@pytest.mark.parametrize("method", ["mean", "merge", "mean-of-all"])
def test_rows_in_the_hull_leave_greedy_output_as_it_is(measure, method):
    measured, _ = measure(method)
    assert measured.metrics == {
        "greedy_agreement": 1, "next_token_agreement": 1, "new_token_choices": 0,
    }  # fmt: skip
    assert measured.details["new_tokens"] == len(MERGES)


def likeliest(model, ids):
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0].argmax(dim=-1)


def test_agreement_is_that_of_two_texts_written_token_by_token(measure, model, byte_tokenizer):
    tokenizer = byte_tokenizer()
    rng = np.random.default_rng(0)
    scale = model.get_output_embeddings().weight.detach().std().item()
    new = rng.normal(0, 1.3 * scale, (len(MERGES), 32)).astype(np.float32)
    rows = DenseRows(
        {"input": new, "output": new}, source_of(len(MERGES), tokenizer), len(tokenizer)
    )
    measured, grafted = measure(rows)

    def written(one, ids):
        ids = list(ids)
        for _ in range(8):
            ids.append(int(likeliest(one, ids)[-1]))
            if ids[-1] == 0:
                break
        return ids

    prompts = [[0, *tokenizer(text)["input_ids"]][:6] for text in ("Good morning", "one two three")]
    same = [written(model, ids) == written(grafted, ids) for ids in prompts]
    assert measured.metrics["greedy_agreement"] == np.mean(same)


def test_a_replaced_vocabulary_is_not_measured(measure, byte_level_other):
    measured, _ = measure("mean", tokenizer=byte_level_other)
    assert measured.metrics == {}
    assert "replaces" in measured.details["not_measured"]


@pytest.fixture
def byte_level_other(byte_tokenizer):
    """The source's tokens under other ids: a merge's token comes before the bytes."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    state = json.loads(byte_tokenizer().backend_tokenizer.to_str())
    vocabulary = state["model"]["vocab"]
    state["model"]["vocab"] = {
        token: len(vocabulary) - 1 - number for token, number in vocabulary.items()
    }
    for added in state["added_tokens"]:
        added["id"] = len(vocabulary) - 1 - added["id"]
    tokenizer = Tokenizer.from_str(json.dumps(state))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")


def test_a_corpus_without_english_is_the_users_error(measure, tmp_path):
    (tmp_path / "corpus" / "english.txt").write_text("")
    with pytest.raises(UserError, match=r"english\.txt: empty"):
        measure("mean")
