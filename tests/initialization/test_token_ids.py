"""Each setting with a token id follows its token to another vocabulary."""

import json
import re

import numpy as np
import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, GenerationConfig
from transformers.models.auto import modeling_auto

from lexigraft.errors import UserError
from lexigraft.initialization.graft import graft
from lexigraft.initialization.registry import initializer
from lexigraft.initialization.token_ids import update_special_token_ids
from tests.architectures import TEXT, logits, tiny_model, tokenizers

# What names of settings of the configurations say; sizes of an own vocabulary are not meant.
IS_ID = re.compile(r"token_(id|index)$|^(mask|unk)_index$")
TYPES = sorted(
    modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    | modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
)
# The target keeps source tokens 0 to 19 in reverse order; 20 is gone; 20 to 24 are new.
SOURCE_OF = np.array([*range(19, -1, -1), *[-1] * 5])


class NoRoles:
    """A tokenizer without special tokens."""

    def get_vocab(self):
        return {str(number): number for number in range(len(SOURCE_OF))}


def configs_of(model_type):
    try:
        config = CONFIG_MAPPING[model_type]()
        text = config.get_text_config()
    except Exception:  # some defaults contradict each other
        pytest.skip("no default configuration")
    return config, text


@pytest.fixture(scope="module")
def model():
    return tiny_model(AutoModelForCausalLM, "llama", len(SOURCE_OF))


@pytest.mark.parametrize("model_type", TYPES)
def test_every_token_id_of_every_configuration_follows_its_token(model_type, model):
    config, text = configs_of(model_type)
    parts = [getattr(config, name) for name in config.sub_configs]
    parts = [part for part in parts if part is not None and not hasattr(part, "vocab_size")]
    found = [(one, key) for one in (config, text, *parts) for key in vars(one) if IS_ID.search(key)]
    model.config, model.generation_config = config, None
    for source_id, expected in ((7, {12}), (20, {None, -1}), (-1, {None, -1})):
        for owner, key in found:
            setattr(owner, key, source_id)
        try:
            update_special_token_ids(model, NoRoles(), SOURCE_OF)
        except UserError:
            pytest.skip("cannot be grafted")
        for owner, key in found:
            assert vars(owner)[key] in expected, key


def source_model():
    return tiny_model(AutoModelForCausalLM, "llama", len(tokenizers()[0]))


def grafted(model, change):
    source, targets = tokenizers()
    fitted = initializer("mean").fit(source, targets[change])
    return graft(model, targets[change], fitted), fitted.source_of


@pytest.mark.parametrize("change", ["expand", "prune"])
def test_lists_of_token_ids_are_translated_without_missing_tokens(change):
    source, targets = tokenizers()
    ids = source(TEXT).input_ids[:3]
    tokens = source.convert_ids_to_tokens(ids)
    kept = set(targets["prune"].get_vocab())
    gone = next(i for token, i in source.get_vocab().items() if token not in kept)
    model = source_model()
    model.generation_config = GenerationConfig(
        suppress_tokens=[ids[0], gone],
        begin_suppress_tokens=[gone, ids[2]],
        bad_words_ids=[ids, [ids[0], gone], [ids[1]]],
        sequence_bias=[[ids[:2], 2.0], [[gone], -1.0]],
        forced_bos_token_id=ids[2],
        forced_eos_token_id=[ids[1], ids[2], gone],
        forced_decoder_ids=[[1, ids[0]], [2, gone]],
    )
    found = grafted(model, change)[0].generation_config
    a, b, c = targets[change].convert_tokens_to_ids(tokens)
    lost = change == "prune"
    assert found.suppress_tokens == ([a] if lost else [a, gone])
    assert found.begin_suppress_tokens == ([c] if lost else [gone, c])
    assert found.bad_words_ids == [[a, b, c], *([] if lost else [[a, gone]]), [b]]
    assert found.sequence_bias == [[[a, b], 2.0], *([] if lost else [[[gone], -1.0]])]
    assert found.forced_bos_token_id == c
    assert found.forced_eos_token_id == ([b, c] if lost else [b, c, gone])
    assert found.forced_decoder_ids == [[1, a], *([] if lost else [[2, gone]])]


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
@pytest.mark.parametrize("role", ["pad", "eos", "bos"])
def test_an_id_of_minus_one_never_names_a_token(role, file, tmp_path):
    source_model().save_pretrained(tmp_path)
    place = tmp_path / file
    place.write_text(json.dumps(json.loads(place.read_text()) | {f"{role}_token_id": -1}))
    model, source_of = grafted(AutoModelForCausalLM.from_pretrained(tmp_path), "expand")
    model.save_pretrained(tmp_path / "out")
    reloaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    for config in (model.config, reloaded.config) if file == "config.json" else (
        model.generation_config, reloaded.generation_config,
    ):  # fmt: skip
        assert getattr(config, f"{role}_token_id") in (None, -1)
    ids = torch.tensor([np.flatnonzero(source_of < 0).tolist()])
    for each in (model, reloaded):
        each.train().zero_grad()
        each(ids, labels=ids).loss.backward()
        gradient = each.get_input_embeddings().weight.grad
        assert gradient[ids[0, :-1]].abs().sum(dim=1).all()


def test_logits_that_end_at_the_last_token_include_the_new_ones():
    source, targets = tokenizers()
    model = tiny_model(AutoModelForCausalLM, "inkling_text", len(source) + 3)
    model.config.unpadded_vocab_size = len(source)
    fitted = initializer("mean").fit(source, targets["expand"], n_source=len(source) + 3)
    found = logits(graft(model, targets["expand"], fitted), [3, 4])
    assert found.shape == (2, len(targets["expand"]))


def test_translated_settings_are_saved_and_take_effect(tmp_path):
    source, targets = tokenizers()
    model = source_model()
    prompt = source(TEXT).input_ids[:2]
    token = int(logits(model, prompt)[-1].argmax())
    kept = targets["prune"].get_vocab()
    if source.convert_ids_to_tokens(token) not in kept:
        token = source(TEXT).input_ids[0]
    model.generation_config = GenerationConfig(
        suppress_tokens=[token], bad_words_ids=[[token]], sequence_bias=[[[token], -9.0]]
    )
    grafted(model, "prune")[0].save_pretrained(tmp_path)
    reloaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    forbidden = kept[source.convert_ids_to_tokens(token)]
    ids = targets["prune"](TEXT, return_tensors="pt").input_ids[:, :2]
    assert forbidden not in reloaded.generate(ids, max_new_tokens=8)[0, 2:].tolist()
