"""A trained model is merged with its source or another model before it is stored."""

import json
import math
import shutil

import numpy as np
import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.initialization.registry import initializer
from lexigraft.source.model import load_model
from lexigraft.training.export import export
from lexigraft.training.merging import layer_weights, slerp
from lexigraft.training.settings import read_strategy
from lexigraft.training.store import load_cell
from lexigraft.training.train import train_cell
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.token_bytes import special_ids
from tests.training.interruption import EAGER, interrupted_at
from tests.training.trained import folder_of, give_vocabulary, same_bits

LAYERS = {"trainable": ["embeddings", "head", {"layers": [0, 1, -1]}], "length": 32}
LORA = {"trainable": ["embeddings", "head", "lora"], "length": 32}
STEPS = {"batch_sequences": 4, "epochs": 1, "learning_rate": 5e-2}
WEIGHTS = {"layers": [0, 1, -1], "weights": [0.3, 0.5, 0.25]}
TOKENS = torch.arange(3, 60)[None]


def tensors(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def interpolated(method, weight, trained, source):
    """By rotation within the plane of both, independent of the formula with two sines."""
    a, b = trained.double().flatten().numpy(), source.double().flatten().numpy()
    unit_a, unit_b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    angle = 2 * math.atan2(np.linalg.norm(unit_a - unit_b), np.linalg.norm(unit_a + unit_b))
    if method == "linear" or math.cos(angle) > 0.9995:
        merged = a + weight * (b - a)
    else:
        # A unit vector orthogonal to a; each of a and b in these coordinates.
        normal = unit_b - (unit_b @ unit_a) * unit_a
        normal /= np.linalg.norm(normal)
        skewed = np.linalg.inv([[1, math.cos(angle)], [0, math.sin(angle)]])
        turned = [math.cos(weight * angle), math.sin(weight * angle)]
        share_a, share_b = skewed @ turned
        merged = share_a * a + share_b * b
    return torch.from_numpy(merged).reshape(trained.shape).float()


def test_slerp_of_unit_vectors_turns_at_constant_speed_and_keeps_the_norm():
    start, end = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    for weight in (0.0, 0.3, 0.5, 1.0):
        angle = weight * math.pi / 2
        expected = torch.tensor([[math.cos(angle), math.sin(angle)]])
        torch.testing.assert_close(slerp(start, end, weight), expected)
    # With other norms, as in the published code: sin(60°)/sin(90°) and sin(30°)/sin(90°).
    torch.testing.assert_close(
        slerp(2 * start, 4 * end, 1 / 3), torch.tensor([[2 * math.sqrt(0.75), 2.0]])
    )


def test_slerp_of_nearly_collinear_and_of_zero_tensors():
    start = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    end = start + 1e-4
    torch.testing.assert_close(slerp(start, end, 0.3), start + 3e-5)
    zero = torch.zeros(3)
    assert torch.equal(slerp(zero, zero, 0.3), zero)
    assert torch.equal(slerp(start, start, 0.5), start)


@pytest.fixture
def setup(training_setup, without_bos, telugu):
    """A job `(merge, phases)` with 30 new tokens."""

    def build(tied=True):
        tokenizer = without_bos
        place = training_setup(tied=tied)
        target = expand_tokenizer(tokenizer, telugu, new_tokens=30)
        fitted = initializer("mean").fit(tokenizer, target, n_source=320)

        def job(merge=None, phases=(LAYERS,), strategy="s", **settings):
            settings = {**STEPS, "phases": list(phases), **settings}
            job = place.job(settings | ({"merge": merge} if merge else {}), strategy=strategy)
            give_vocabulary(job, place.results, target, fitted)
            return job

        return job, place, target, fitted.recipe_.source_of

    return build


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("method", ["slerp", "linear"])
def test_elchat_interpolates_layers_and_restores_special_rows(setup, tmp_path, method, tied):
    from transformers import AutoModelForCausalLM

    job, place, target, source_of = setup(tied)
    train_cell(job())
    trained = tensors(load_cell(folder_of(job()))[0])
    shutil.rmtree(folder_of(job()))
    train_cell(job({"method": method, **WEIGHTS}))
    model, _ = load_cell(folder_of(job()))
    merged, source = tensors(model), tensors(load_model(place.source, torch.float32))
    weights = {0: 0.3, 1: 0.5, 3: 0.25}
    for name, tensor in merged.items():
        if name.endswith(("embed_tokens.weight", "lm_head.weight")):
            special = sorted(special_ids(target))
            assert special and torch.equal(tensor[special], source[name][source_of[special]])
            assert not torch.equal(trained[name][special], tensor[special])
            others = np.setdiff1d(np.arange(len(tensor)), special)
            assert torch.equal(tensor[others], trained[name][others])
        elif ".layers." in name and int(name.split(".")[2]) in weights:
            weight = weights[int(name.split(".")[2])]
            expected = interpolated(method, weight, trained[name], source[name])
            torch.testing.assert_close(tensor, expected, rtol=1e-5, atol=1e-6)
            assert not torch.equal(trained[name], tensor)
        else:
            assert torch.equal(tensor, source[name]), name
    exported = AutoModelForCausalLM.from_pretrained(export(folder_of(job()), tmp_path / "out"))
    assert torch.equal(exported(TOKENS).logits, model(TOKENS).logits)


def test_slerp_and_linear_differ_in_tensors_that_training_turned(setup):
    job, *_ = setup()
    merged = []
    for method in ("slerp", "linear"):
        train_cell(job({"method": method, **WEIGHTS}))
        merged.append(tensors(load_cell(folder_of(job()))[0]))
    name = "model.layers.0.self_attn.q_proj.weight"
    assert not torch.allclose(merged[0][name], merged[1][name], atol=1e-6)


def test_adapters_are_merged_into_the_weights_first(setup):
    job, place, *_ = setup()
    train_cell(job(phases=[LORA]))
    trained = tensors(load_cell(folder_of(job()))[0])
    shutil.rmtree(folder_of(job()))
    train_cell(job({"method": "linear", "weights": [0.5]}, [LORA]))
    assert not (folder_of(job()) / "adapter").exists()
    merged = tensors(load_cell(folder_of(job()))[0])
    source = tensors(load_model(place.source, torch.float32))
    name = "model.layers.2.mlp.up_proj.weight"
    assert not torch.equal(trained[name], source[name])
    torch.testing.assert_close(merged[name], (trained[name] + source[name]) / 2)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_interrupted_run_stores_the_same_merged_model(setup, monkeypatch, precision):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", precision)
    job, *_ = setup()
    merging = job(
        {"method": "slerp", **WEIGHTS}, checkpoints=2, curve={"sentences": 4, "points": 0}
    )
    train_cell(merging)
    expected = tensors(load_cell(folder_of(merging))[0])
    earlier = tensors(load_cell(folder_of(merging) / "checkpoint-1")[0])
    assert not same_bits(earlier, expected)
    shutil.rmtree(folder_of(merging))
    with interrupted_at(2):
        train_cell(merging, EAGER)
    train_cell(merging)
    assert json.loads((folder_of(merging) / "card.json").read_text())["resumed_from_step"] == 1
    assert same_bits(tensors(load_cell(folder_of(merging))[0]), expected)


@pytest.fixture
def chat(setup, tiny_llama):
    """As `setup`, and a folder with another model of the same shapes and tokenizer."""
    job, place, *others = setup()
    folder = place.results / "source" / "chat"
    shutil.copytree(place.source, folder)
    tiny_llama(320, seed=1).save_pretrained(folder)
    return job, place, folder, *others


@pytest.mark.parametrize("special_tokens", [True, False])
def test_a_chat_vector_is_added_to_a_trained_base_model(chat, special_tokens):
    job, place, folder, target, source_of = chat
    train_cell(job(strategy="base"))
    settings = {"method": "add", "of": "chat", "weights": [1.0], "special_tokens": special_tokens}
    added = job(settings, [], after="base")
    added["inputs"] |= {"start": str(folder_of(job(strategy="base"))), "merged": str(folder)}
    train_cell(added)
    base, instruct, trained, merged = (
        tensors(model)
        for model in (
            load_model(place.source, torch.float32),
            load_model(folder, torch.float32),
            load_cell(folder_of(job(strategy="base")))[0],
            load_cell(folder_of(added))[0],
        )
    )
    special = sorted(special_ids(target))
    for name, tensor in merged.items():
        if name.endswith(("embed_tokens.weight", "lm_head.weight")):
            new = source_of < 0
            assert new.sum() == 30 and torch.equal(tensor[new], trained[name][new])
            rows = np.setdiff1d(np.flatnonzero(~new), special if special_tokens else [])
            # Propagation: what training changed in the base model is added to the chat model.
            change = trained[name][rows] - base[name][source_of[rows]]
            expected = instruct[name][source_of[rows]] + change
            torch.testing.assert_close(tensor[rows], expected, rtol=1e-5, atol=1e-6)
            restored = torch.equal(tensor[special], instruct[name][source_of[special]])
            assert restored == special_tokens
        else:
            expected = instruct[name] + (trained[name] - base[name])
            torch.testing.assert_close(tensor, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])  # which rounds frozen weights
def test_layers_of_another_model_are_interpolated_and_the_rest_is_its_own(
    chat, monkeypatch, precision
):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", precision)
    job, _, folder, *_ = chat
    merging = job({"method": "linear", "of": "chat", **WEIGHTS})
    merging["inputs"]["merged"] = str(folder)
    train_cell(merging)
    merged, instruct = load_cell(folder_of(merging))[0], load_model(folder, torch.float32)
    assert torch.equal(merged.model.norm.weight, instruct.model.norm.weight)
    layer = "mlp.up_proj.weight"
    second = merged.model.layers[2].get_parameter(layer)
    assert torch.equal(second, instruct.model.layers[2].get_parameter(layer))
    assert not torch.equal(
        merged.model.layers[0].get_parameter(layer), instruct.model.layers[0].get_parameter(layer)
    )


@pytest.mark.parametrize("change", ["shapes", "tokenizer"])
def test_a_model_of_another_family_is_refused(chat, tiny_llama, without_bos, change):
    job, _, folder, *_ = chat
    if change == "shapes":
        tiny_llama(328).save_pretrained(folder)
    else:
        file = folder / "tokenizer.json"
        content = json.loads(file.read_text())
        vocabulary = content["model"]["vocab"]
        first, second = sorted(vocabulary, key=vocabulary.get)[-2:]
        vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
        file.write_text(json.dumps(content))
    merging = job({"method": "linear", "of": "chat", **WEIGHTS})
    merging["inputs"]["merged"] = str(folder)
    message = "embed_tokens.weight of .* shape" if change == "shapes" else "has another id for"
    with pytest.raises(UserError, match=f"^merge.of: .*{message}"):
        train_cell(merging)


def test_a_layer_that_the_model_lacks_is_refused(tiny_llama):
    merge = {"method": "slerp", "layers": [0, 4], "weights": [0.3, 0.5]}
    strategy = read_strategy({"phases": [LAYERS], "merge": merge})
    with pytest.raises(UserError, match=r"merge\.layers: layer 4 does not exist; the model has 4"):
        layer_weights(tiny_llama(320), strategy.merge)


@pytest.mark.parametrize(
    ("merge", "message"),
    [
        (
            {"method": "slerp", "layers": [0, 1], "weights": [0.1, 0.2, 0.3]},
            "merge.weights: has 3 numbers for 2",
        ),
        ({"method": "slerp", "weights": [1.5]}, "merge.weights: a share is from 0 to 1"),
        ({"method": "add", "weights": [1.0]}, "merge.of: missing; name the chat model"),
        ({"method": "add", "of": "x", "layers": [0], "weights": [1.0]}, "merge.layers: a differ"),
    ],
)
def test_settings_that_do_not_fit_are_refused(merge, message):
    with pytest.raises(UserError, match=f"strategy.{message}"):
        read_strategy({"phases": [LAYERS], "merge": merge})
