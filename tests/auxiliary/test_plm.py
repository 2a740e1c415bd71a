import json
from copy import deepcopy

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5EncoderModel,
    T5ForConditionalGeneration,
)

from lexigraft.auxiliary.token_vectors import read_plm
from lexigraft.errors import UserError

PADDING = 3


def bert(kind, rows):
    return kind(
        BertConfig(
            vocab_size=rows, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=8, max_position_embeddings=16,
        )
    )  # fmt: skip


def gpt(kind, rows):
    return kind(GPT2Config(vocab_size=rows, n_embd=8, n_layer=1, n_head=2, n_positions=16))


def t5(kind, rows):
    return kind(
        T5Config(vocab_size=rows, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    )  # fmt: skip


MODELS = [
    (bert, BertForMaskedLM), (bert, BertModel), (gpt, GPT2LMHeadModel),
    (t5, T5ForConditionalGeneration), (t5, T5EncoderModel),
]  # fmt: skip


@pytest.fixture
def plm(tmp_path, letters):
    """Factory of small random models with the tokenizer `letters`, saved: `plm(build, kind)`."""

    def save(build=bert, kind=BertForMaskedLM, **options):
        torch.manual_seed(0)
        model = build(kind, len(letters) + PADDING)
        model.save_pretrained(tmp_path / "plm", **options)
        letters.save_pretrained(tmp_path / "plm")
        return model, tmp_path / "plm"

    return save


@pytest.mark.parametrize("build, kind", MODELS)
def test_the_rows_are_those_of_the_models_input_embeddings(plm, letters, build, kind):
    model, folder = plm(build, kind)
    found = read_plm(letters, folder)
    rows = model.get_input_embeddings().weight.detach().numpy()
    assert found.tokens.tolist() == list(range(len(letters)))
    assert np.array_equal(found.vectors, rows[: len(letters)])


def test_a_model_in_half_precision_and_in_several_files_reads_the_same(plm, letters, tmp_path):
    model, folder = plm()
    whole = read_plm(letters, folder)
    model.half().save_pretrained(folder, max_shard_size="1KB")
    (folder / "model.safetensors").unlink()
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    np.testing.assert_allclose(read_plm(letters, folder).vectors, whole.vectors, atol=1e-3)


def test_a_tokenizer_of_another_model_is_refused(plm, smollm2_tokenizer):
    with pytest.raises(UserError, match="the vocabulary must be this model's own"):
        read_plm(smollm2_tokenizer, plm()[1])


def test_an_added_token_without_a_row_has_no_vector(plm, letters, tmp_path):
    _, folder = plm()
    with_image = deepcopy(letters)
    with_image.add_tokens([f"<image {i}>" for i in range(PADDING + 2)], special_tokens=True)
    with_image.save_pretrained(folder)
    assert len(read_plm(with_image, folder).tokens) == len(letters) + PADDING


def test_pickled_weights_and_remote_code_are_refused(plm, letters):
    _, folder = plm()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="a format that can run code"):
        read_plm(letters, folder)
    (folder / "pytorch_model.bin").rename(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config |= {"auto_map": {"AutoModel": "a.B"}, "model_type": "mystery"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="never run"):
        read_plm(letters, folder)
