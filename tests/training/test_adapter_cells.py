"""Whole cells whose recipes are trained (VocADT), and phases after it."""

import json
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from lexigraft.corpus.lines import corpus_sentences
from lexigraft.errors import UserError
from lexigraft.inference.likelihood import score_texts
from lexigraft.initialization.recipe import RecipePair
from lexigraft.initialization.registry import initializer
from lexigraft.initialization.storage import load_initialization, save_initialization
from lexigraft.source.model import load_model
from lexigraft.training.export import export
from lexigraft.training.store import load_cell
from lexigraft.training.train import train_cell
from lexigraft.training.training_log import TrainingLog
from lexigraft.vocabulary.tokenizer_files import save_tokenizer
from tests.inference.conftest import train_byte_bpe
from tests.training.interruption import EAGER, interrupted_at
from tests.training.trained import folder_of

SHARED = {"batch_sequences": 4, "epochs": 1, "learning_rate": 1e-2, "gradient_checkpointing": False}
DENSE = {"trainable": ["adapter"], "length": 32}
SPARSE = {**DENSE, "adapter": {"form": "sparse"}}
FULL = {"trainable": ["all"], "length": 32}
TOKENS = torch.arange(3, 290)[None]


@pytest.fixture(scope="session")
def own_tokenizer(telugu):
    """A tokenizer whose tokens have other ids than the source's."""
    return train_byte_bpe(telugu, 290)


@pytest.fixture
def cells(training_setup, without_bos, own_tokenizer):
    """`cells(tied).job(phases)`: jobs of cells with a vocabulary of their own."""

    def build(tied=True, method="mean", sentences=12):
        place = training_setup(tied=tied, sentences=sentences)
        folders = [place.results / stage / "tiny" / "te" / "own" for stage in ("vocab", "init")]
        save_tokenizer(own_tokenizer, folders[0])
        fitted = initializer(method).fit(without_bos, own_tokenizer, n_source=320)
        rows = load_model(place.source, torch.float32).get_input_embeddings().weight
        save_initialization(fitted, folders[1], {"input": rows, "output": rows})

        def job(phases, **settings):
            name = "-".join(["s", *(phase["trainable"][0] for phase in phases)])
            job = place.job({**SHARED, "phases": phases, **settings}, strategy=name)
            job["inputs"] |= {"tokenizer": str(folders[0]), "initialization": str(folders[1])}
            return job

        return SimpleNamespace(job=job, initialization=folders[1], source=place.source)

    return build


def log_of(job, event):
    return TrainingLog(folder_of(job) / "log.jsonl").lines(event)


def card_of(job):
    return json.loads((folder_of(job) / "card.json").read_text())


def matrices_of(job):
    """Input and head as they are stored, by their names in the recipes."""
    stored = load_file(folder_of(job) / "changed.safetensors")
    return {"input": stored["model.embed_tokens.weight"], "output": stored["lm_head.weight"]}


def test_training_starts_at_the_grafted_model_and_lowers_the_curve(cells):
    made = cells()
    train_cell(made.job([]))
    job = made.job([DENSE], epochs=2)
    train_cell(job)
    card, plain = card_of(job), card_of(made.job([]))
    assert card["heldout_before"] == pytest.approx(plain["heldout_before"], rel=1e-6)
    assert card["heldout_after"] < 0.95 * card["heldout_before"]
    steps = log_of(job, "step")
    assert steps[-1]["lm_loss"] < 0.95 * steps[0]["lm_loss"]
    for line in steps:
        assert line["loss"] == pytest.approx(line["lm_loss"] + line["aux_loss"], rel=1e-5)
    assert steps[0]["aux_loss"] == 0 < steps[-1]["aux_loss"]


@pytest.mark.parametrize(("phase", "tied"), [(DENSE, True), (SPARSE, False)])
def test_a_cell_stores_two_plain_matrices_and_their_recipes(cells, phase, tied, tmp_path):
    from transformers import AutoModelForCausalLM

    made = cells(tied)
    job = made.job([phase])
    train_cell(job)
    assert set(load_file(folder_of(job) / "changed.safetensors")) == {
        "model.embed_tokens.weight",
        "lm_head.weight",
    }
    source = load_model(made.source, torch.float32)
    layers = [source.get_input_embeddings(), source.get_output_embeddings()]
    recipes = RecipePair.load(folder_of(job) / "adapter.npz")
    entries = phase.get("adapter", {}).get("entries", 256)
    whole = phase is SPARSE or entries >= 320
    for (which, stored), layer in zip(matrices_of(job).items(), layers, strict=True):
        again = recipes.apply(layer.weight.detach(), which)
        # A dense adapter is stored with the 256 largest of 320 weights.
        torch.testing.assert_close(again, stored, atol=1e-5 if whole else 0.02, rtol=1e-4)
    card = card_of(job)
    assert "adapter.npz" in card["files"] and card["untied"] == tied
    start = load_initialization(made.initialization)
    numbers = start.left.nnz if phase is SPARSE else 290 * 320
    assert card["trained_parameters"] == 2 * numbers
    assert card["total_parameters"] == sum(
        p.numel() for p in load_cell(folder_of(job))[0].parameters()
    )
    model, tokenizer = load_cell(folder_of(job))
    assert model.config.eos_token_id == tokenizer.eos_token_id == 2
    body = dict(source.named_parameters())
    for name, parameter in model.named_parameters():
        assert "embed" in name or "head" in name or torch.equal(parameter, body[name])
    exported = AutoModelForCausalLM.from_pretrained(export(folder_of(job), tmp_path / "out"))
    assert torch.equal(exported(TOKENS).logits, model(TOKENS).logits)
    assert torch.equal(exported.lm_head.weight, matrices_of(job)["output"])


@pytest.mark.fault(
    "kill",
    "training is interrupted early, late, or between two phases",
    "it resumes from its last checkpoint; the result is bit-identical",
)
@pytest.mark.parametrize(
    ("first", "tied", "where"),
    [
        (DENSE, True, "early"),
        (SPARSE, False, "after the boundary of phases"),
    ],
)
def test_an_interrupted_cell_is_bit_identical_to_an_uninterrupted_one(cells, first, tied, where):
    phases = [{**first, "share": 0.5}, {**FULL, "share": 0.5}]
    job = cells(tied, sentences=6).job(phases, batch_sequences=1)
    train_cell(job)
    files = ("changed.safetensors", "adapter.npz")
    whole = [(folder_of(job) / name).read_bytes() for name in files]
    steps = log_of(job, "step")
    second = next(line["step"] for line in steps if line["phase"] == 1)
    stop = 2 if where == "early" else second
    with interrupted_at(stop):
        train_cell(job, EAGER)
    train_cell(job, EAGER)
    assert 0 < card_of(job)["resumed_from_step"] == stop - 1
    assert [(folder_of(job) / name).read_bytes() for name in files] == whole
    assert card_of(job)["untied"] == tied
    again = [line["loss"] for line in log_of(job, "step")]
    assert again == [line["loss"] for line in steps]


def test_a_cell_without_a_new_vocabulary_or_a_recipe_is_refused(cells, training_setup):
    with pytest.raises(UserError, match="needs a recipe to start from"):
        train_cell(cells(method="random").job([DENSE]))
    with pytest.raises(UserError, match="this cell has none; give it"):
        train_cell(training_setup().job({**SHARED, "phases": [DENSE]}))


def test_a_retained_checkpoint_scores_like_the_model_at_its_step(cells):
    phases = [{**DENSE, "share": 0.5}, {**FULL, "share": 0.5}]
    job = cells().job(phases, checkpoints=4, curve={"sentences": 4, "points": 3})
    train_cell(job)
    sentences = corpus_sentences(job["inputs"]["corpus"], "heldout", 4)
    logged = log_of(job, "heldout")
    for number in (1, 2, 3):
        model, tokenizer = load_cell(folder_of(job) / f"checkpoint-{number}")
        found = score_texts(model, tokenizer, sentences).bits_per_byte
        assert found == pytest.approx(logged[number]["bits_per_byte"], rel=1e-4)
