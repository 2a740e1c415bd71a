"""Cells with a vocabulary and an initialization of their own."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from lexigraft.corpus.lines import corpus_sentences
from lexigraft.errors import UserError
from lexigraft.inference.likelihood import score_texts
from lexigraft.initialization.graft import graft
from lexigraft.initialization.registry import initializer
from lexigraft.source.model import load_model
from lexigraft.training.export import export
from lexigraft.training.store import load_cell
from lexigraft.training.train import train_cell
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.prune import prune_tokenizer
from tests.architectures import tiny_model
from tests.training.interruption import EAGER, interrupted_at
from tests.training.trained import give_vocabulary, same_bits

PHASES = {
    "lora": [{"trainable": ["embeddings", "head", "lora"], "length": 32}],
    "layers": [{"trainable": [{"layers": [0]}], "length": 32}],
    "none": [],
}


@pytest.fixture
def grafted(training_setup, without_bos, telugu):
    """Jobs of cells with 30 new tokens, and the model that they start from."""

    def build(tied=True, shared="bytes"):
        place = training_setup(tied=tied)
        target = expand_tokenizer(without_bos, telugu, new_tokens=30)
        fitted = initializer("mean", shared=shared).fit(without_bos, target, n_source=320)

        def job(strategy):
            settings = {"phases": PHASES[strategy], "epochs": 1, "learning_rate": 1e-2}
            job = place.job(settings, strategy=strategy)
            give_vocabulary(job, place.results, target, fitted)
            return job

        start = graft(load_model(place.source, torch.float32), target, fitted)
        return job, start, target

    return build


@pytest.mark.parametrize(
    ("tied", "shared", "new_rows"),
    [
        (True, "bytes", 30),
        (False, "bytes", 30),
        (True, "special", 327),
    ],
)
def test_without_training_the_cell_is_the_grafted_model(grafted, tied, shared, new_rows):
    job, start, target = grafted(tied, shared)
    train_cell(job("none"))
    folder = Path(job("none")["outputs"]["folder"])
    model, tokenizer = load_cell(folder)
    tokens = torch.arange(280, 330)[None]
    assert torch.equal(model(tokens).logits, start(tokens).logits)
    stored = load_file(folder / "changed.safetensors")
    assert set(stored) == {"model.embed_tokens.weight"} | (set() if tied else {"lm_head.weight"})
    assert {tensor.shape for tensor in stored.values()} == {(new_rows, 32)}  # the new rows alone
    assert tokenizer.get_vocab() == target.get_vocab()
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied


@pytest.mark.parametrize("tied", [True, False])
def test_a_pruned_model_reads_its_text_as_the_source_does(
    training_setup, without_bos, telugu, english, tmp_path, tied
):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = training_setup(tied=tied)
    target = prune_tokenizer(without_bos, [*telugu, english[0]])
    fitted = initializer("mean").fit(without_bos, target, n_source=320)
    job = place.job({"phases": []}, strategy="none")
    give_vocabulary(job, place.results, target, fitted)
    train_cell(job)
    out = export(job["outputs"]["folder"], tmp_path / "out")
    model, tokenizer = AutoModelForCausalLM.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    assert model.config.vocab_size == len(tokenizer) == len(target) < len(without_bos)
    kept = without_bos.convert_tokens_to_ids(tokenizer.convert_ids_to_tokens(range(len(target))))
    source = load_model(place.source, torch.float32)
    for text in (telugu[0], english[0]):
        ids = [each(text, return_tensors="pt")["input_ids"] for each in (without_bos, tokenizer)]
        assert ids[0].tolist() == [[kept[number] for number in ids[1][0].tolist()]]
        # All but the head's rows that are gone is bit-identical.
        expected = source(ids[0]).logits[..., kept]
        torch.testing.assert_close(model(ids[1]).logits, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("strategy", "tied", "change"),
    [
        ("lora", True, "expand"),
        ("lora", False, "expand"),
        ("layers", True, "expand"),
        ("none", False, "prune"),
        ("none", True, ""),
    ],
)
def test_the_code_of_a_delta_rebuilds_the_full_export_bit_for_bit(
    training_setup, without_bos, telugu, tmp_path, monkeypatch, strategy, tied, change
):
    from transformers import AutoModelForCausalLM

    place = training_setup(tied=tied)
    job = place.job({"phases": PHASES[strategy], "epochs": 1, "learning_rate": 1e-2})
    if change:
        expanded = expand_tokenizer(without_bos, telugu, new_tokens=30)
        target = expanded if change == "expand" else prune_tokenizer(without_bos, telugu)
        fitted = initializer("mean").fit(without_bos, target, n_source=320)
        give_vocabulary(job, place.results, target, fitted)
    train_cell(job)
    cell = job["outputs"]["folder"]
    full = AutoModelForCausalLM.from_pretrained(export(cell, tmp_path / "full"))
    folder = export(cell, tmp_path / "delta", delta=True)
    code = (folder / "README.md").read_text("utf-8").split("```")[1].removeprefix("python")
    assert "lexigraft" not in code and 'from_pretrained("tiny"' in code
    monkeypatch.chdir(place.source.parent)
    names = {}
    exec(code.replace("FOLDER", str(folder)), names)
    rebuilt = names["model"]
    assert rebuilt.state_dict().keys() == full.state_dict().keys()
    for name, tensor in full.state_dict().items():
        assert torch.equal(rebuilt.state_dict()[name], tensor), name
    assert rebuilt.config.tie_word_embeddings == tied
    assert names["tokenizer"]("తెలుగు") == load_cell(Path(cell))[1]("తెలుగు")
    stored = load_file(folder / "delta.safetensors")
    new = {"expand": 30, "prune": 0, "": 0}[change]
    if strategy == "none":
        assert {len(stored[name]) for name in stored if not name.endswith(".rows")} == {new}
    names = {file.name for file in folder.iterdir()}
    assert ("adapter" in names) == (strategy == "lora") and "model.safetensors" not in names


def test_a_vocabulary_without_an_initialization_is_refused(grafted):
    job, _, _ = grafted()
    settings = job("lora")
    settings["inputs"]["initialization"] = None
    with pytest.raises(UserError, match="tokens up to id 329 but the model has only 320 rows"):
        train_cell(settings)


@pytest.fixture
def replaced(training_setup, without_bos, telugu):
    """A cell whose vocabulary another one replaced, not trained, and the model grafted directly."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=290, special_tokens=["<unk>", "[end]", "[begin]"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    backend.train_from_iterator(telugu, trainer)
    target = PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", eos_token="[end]", bos_token="[begin]"
    )

    def build(tied=True):
        place = training_setup(tied=tied)
        fitted = initializer("mean").fit(without_bos, target, n_source=320)
        job = place.job({"phases": []})
        give_vocabulary(job, place.results, target, fitted)
        train_cell(job)
        start = graft(load_model(place.source, torch.float32), target, fitted)
        return Path(job["outputs"]["folder"]), start, target

    return build


def test_a_cell_and_an_export_with_a_replaced_vocabulary_name_its_special_tokens(
    replaced, tmp_path
):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, start, target = replaced(tied=False)
    model, tokenizer = load_cell(folder)
    tokens = torch.arange(290)[None]
    assert torch.equal(model(tokens).logits, start(tokens).logits)
    assert tokenizer.get_vocab() == target.get_vocab()
    assert model.config.to_dict() == start.config.to_dict()
    assert model.generation_config.to_dict() == start.generation_config.to_dict()
    assert (model.config.bos_token_id, model.config.eos_token_id) == (2, 1)
    out = export(folder, tmp_path / "out")
    model, tokenizer = AutoModelForCausalLM.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    assert model.config.vocab_size == len(tokenizer) == 290
    assert model.config.eos_token_id == model.generation_config.eos_token_id == 1
    assert model.config.bos_token_id == tokenizer.bos_token_id == 2
    assert model.config.pad_token_id == 1  # the source pads with its end of text
    assert torch.equal(model(tokens).logits, start(tokens).logits)


@pytest.mark.parametrize(
    ("trainable", "target"),
    [([], "prune"), (["outside-layers"], "expand"), (["adapter"], "expand")],
)
def test_per_layer_embeddings_follow_their_tokens_into_cells_and_exports(
    training_setup, without_bos, telugu, english, tmp_path, trainable, target
):
    from transformers import AutoModelForCausalLM

    place = training_setup()
    source = tiny_model(AutoModelForCausalLM, "gemma4_text", 320)
    source.save_pretrained(place.source)
    if target == "expand":
        tokenizer = expand_tokenizer(without_bos, telugu, new_tokens=30)
    else:
        tokenizer = prune_tokenizer(without_bos, [*telugu[:40], *english[:5]])
    fitted = initializer("mean").fit(without_bos, tokenizer, n_source=320)
    phases = [{"trainable": trainable, "length": 32}] if trainable else []
    job = place.job({"phases": phases, "epochs": 1, "learning_rate": 1e-2})
    give_vocabulary(job, place.results, tokenizer, fitted)
    train_cell(job)
    cell, _ = load_cell(job["outputs"]["folder"])
    table = "model.embed_tokens_per_layer.weight"
    start = graft(source, tokenizer, fitted).state_dict()[table]
    assert cell.state_dict()[table].shape == start.shape
    assert torch.equal(cell.state_dict()[table], start) == (trainable != ["outside-layers"])
    out = export(job["outputs"]["folder"], tmp_path / "out")
    exported = AutoModelForCausalLM.from_pretrained(out).state_dict()
    assert same_bits(exported, cell.state_dict())
    card = json.loads((Path(job["outputs"]["folder"]) / "card.json").read_text())
    sentences = corpus_sentences(job["inputs"]["corpus"], "heldout", 4)
    found = score_texts(cell, tokenizer, sentences).bits_per_byte
    assert found == pytest.approx(card["heldout_after"], rel=1e-4)


def test_an_export_has_the_rows_of_its_tokenizer(grafted, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    job, _, _ = grafted()
    train_cell(job("lora"))
    out = export(job("lora")["outputs"]["folder"], tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(out)
    assert model.config.vocab_size == len(AutoTokenizer.from_pretrained(out)) == 330
    tokens = torch.arange(280, 330)[None]
    cell, _ = load_cell(job("lora")["outputs"]["folder"])
    assert torch.equal(model(tokens).logits, cell(tokens).logits)


def test_the_heldout_curve_starts_at_the_grafted_model(grafted):
    job, _, _ = grafted()
    for strategy in ("none", "lora"):
        train_cell(job(strategy))
    cards = [
        json.loads((Path(job(strategy)["outputs"]["folder"]) / "card.json").read_text())
        for strategy in ("none", "lora")
    ]
    assert cards[0]["heldout_after"] == pytest.approx(cards[1]["heldout_before"])


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("interrupted_before", [None, 3])
def test_a_cell_continues_another_one(grafted, tied, interrupted_before):
    job, _, _ = grafted(tied)
    train_cell(job("lora"))
    start = job("lora")["outputs"]["folder"]
    following = job("layers")
    following["inputs"]["start"] = start
    if interrupted_before:
        with interrupted_at(interrupted_before):
            train_cell(following, EAGER)
    train_cell(following, EAGER)
    folder = following["outputs"]["folder"]
    cards = [json.loads(Path(path, "card.json").read_text()) for path in (start, folder)]
    assert cards[1]["heldout_before"] == pytest.approx(cards[0]["heldout_after"], rel=1e-5)
    assert cards[1]["heldout_after"] < cards[1]["heldout_before"]
    models = [load_cell(path)[0].state_dict() for path in (start, folder)]
    trained = {name for name in models[0] if ".layers.0." in name}
    changed = {name for name in models[0] if not torch.equal(models[0][name], models[1][name])}
    assert changed == trained
