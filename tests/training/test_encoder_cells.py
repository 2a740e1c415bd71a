"""Whole cells of an encoder: trained, interrupted, put together again, exported."""

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoTokenizer

from lexigraft.errors import UserError
from lexigraft.initialization.graft import graft
from lexigraft.initialization.registry import initializer
from lexigraft.source.model import load_model
from lexigraft.training.export import export
from lexigraft.training.store import load_cell
from lexigraft.training.train import train_cell
from lexigraft.training.training_log import TrainingLog
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.train import train_tokenizer
from tests.training.interruption import EAGER, interrupted_at
from tests.training.trained import folder_of, give_vocabulary

STEPS = {"batch_sequences": 4, "epochs": 2, "learning_rate": 3e-3, "gradient_checkpointing": False}
ALL = {"trainable": ["all"], "objective": "mlm", "length": 64}
LORA = {"trainable": ["embeddings", "head", "lora"], "objective": "mlm", "length": 64}


@pytest.fixture
def place(training_setup, roberta_folder, telugu):
    """A training setup whose source is an encoder."""
    place = training_setup()
    for file in roberta_folder.iterdir():
        (place.source / file.name).write_bytes(file.read_bytes())
    (place.corpus / "train.txt").write_text("\n".join(telugu[:12]) + "\n")
    return place


@pytest.fixture
def grafted(place, roberta_tokenizer, telugu):
    """`grafted(kind, phases)`: the job of a cell with a vocabulary of its own, and its start."""

    def build(kind, phases):
        if kind == "expanded":
            target = expand_tokenizer(roberta_tokenizer, telugu, new_tokens=30)
        else:
            target = train_tokenizer(telugu, "sentencepiece-bpe", 450, roberta_tokenizer)
        fitted = initializer("mean").fit(roberta_tokenizer, target, n_source=len(roberta_tokenizer))
        job = place.job({**STEPS, "phases": phases})
        give_vocabulary(job, place.results, target, fitted)
        return job, graft(load_model(place.source, torch.float32), target, fitted), target

    return build


def lines(job, event):
    return TrainingLog(folder_of(job) / "log.jsonl").lines(event)


def tensors_of(job):
    files = sorted(folder_of(job).rglob("*.safetensors"))
    return {(file.name, n): t for file in files for n, t in load_file(file).items()}


@pytest.mark.parametrize("phase", [ALL, LORA])
def test_training_an_encoder_lowers_the_held_out_perplexity(place, phase):
    job = place.job({**STEPS, "phases": [phase], "epochs": 6})
    train_cell(job)
    steps, curve = lines(job, "step"), lines(job, "heldout")
    assert steps[-1]["loss"] < 0.8 * steps[0]["loss"]
    assert curve[-1]["perplexity"] < 0.7 * curve[0]["perplexity"]
    assert all(line["bits_per_byte"] is None for line in curve)
    card = json.loads((folder_of(job) / "card.json").read_text())
    assert card["heldout_before"] is None and card["steps"] == len(steps)


@pytest.mark.fault(
    "kill",
    "training is interrupted early, late, or between two phases",
    "it resumes from its last checkpoint; the result is bit-identical",
)
def test_an_interrupted_run_is_bit_identical_to_an_uninterrupted_one(place):
    phases = [{**ALL, "share": 0.5}, {**LORA, "share": 0.5}]
    job = place.job({**STEPS, "phases": phases, "epochs": 1})
    train_cell(job)
    whole, count = tensors_of(job), len(lines(job, "step"))
    with interrupted_at(count - 1):
        train_cell(job, EAGER)
    train_cell(job, EAGER)
    again = tensors_of(job)
    assert again.keys() == whole.keys()
    assert all(torch.equal(again[key], whole[key]) for key in whole)


@pytest.mark.parametrize("kind", ["expanded", "replaced"])
def test_an_untrained_cell_is_the_grafted_encoder(grafted, kind):
    job, start, target = grafted(kind, [])
    train_cell(job)
    model, tokenizer = load_cell(folder_of(job))
    tokens = target(["ఒక రెండు", "మూడు"], return_tensors="pt", padding=True)
    with torch.no_grad():
        assert torch.equal(model(**tokens).logits, start(**tokens).logits)
    assert tokenizer.get_vocab() == target.get_vocab()
    assert model.config.to_dict() == start.config.to_dict()
    stored = {name for _, name in tensors_of(job)}
    assert stored == {"roberta.embeddings.word_embeddings.weight", "lm_head.bias"}


@pytest.mark.parametrize("kind", ["expanded", "replaced"])
def test_a_trained_cell_is_exported_for_transformers_alone(grafted, tmp_path, kind):
    job, start, target = grafted(kind, [ALL])
    train_cell(job)
    model, _ = load_cell(folder_of(job))
    out = export(folder_of(job), tmp_path / "out")
    exported, notes = AutoModelForMaskedLM.from_pretrained(out, output_loading_info=True)
    assert not notes["missing_keys"] and not notes["unexpected_keys"]
    tokens = AutoTokenizer.from_pretrained(out)("ఒక <mask> రెండు", return_tensors="pt")
    assert tokens["input_ids"].tolist() == [target("ఒక <mask> రెండు")["input_ids"]]
    assert target.mask_token_id in tokens["input_ids"]
    tokens.pop("token_type_ids", None)
    with torch.no_grad():
        assert torch.equal(exported(**tokens).logits, model(**tokens).logits)
        assert not torch.allclose(model(**tokens).logits, start(**tokens).logits)


def test_only_new_rows_of_an_encoder_are_trained_with_new_rows(grafted):
    phase = {"trainable": ["new-rows"], "objective": "mlm", "length": 64}
    job, start, _ = grafted("expanded", [phase])
    train_cell(job)
    model, _ = load_cell(folder_of(job))
    before, after = (m.get_input_embeddings().weight for m in (start, model))
    assert torch.equal(after[:500], before[:500])
    assert (after[500:] != before[500:]).any()
    assert model.get_output_embeddings().weight is after


def test_a_sequence_longer_than_the_encoder_s_context_is_refused(place):
    with pytest.raises(UserError, match="128"):
        train_cell(place.job({**STEPS, "phases": [{**ALL, "length": 129}]}))
