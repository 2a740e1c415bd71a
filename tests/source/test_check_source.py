"""One clear error for each defect of a source model."""

import json

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from lexigraft.errors import UserError
from lexigraft.source.preparation import check_source
from lexigraft.source.tokenizer import load_tokenizer


def change_config(folder, **changes):
    file = folder / "config.json"
    config = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def test_a_whole_source_passes(whole_source):
    check_source(whole_source)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {"model_type": "mystery"},
            "mystery",
            marks=pytest.mark.bad_input(
                "model",
                "an unknown model type, or a config without an architecture",
                "a one-line error message names the type or says that the architecture is missing",
            ),
        ),
        pytest.param(
            {"auto_map": {"AutoModelForCausalLM": "modeling.Evil"}, "model_type": "mystery"},
            "needs code from its repository",
            marks=pytest.mark.bad_input(
                "hostile",
                "code in a model's repository",
                "never run; a one-line error message says so",
            ),
        ),
        pytest.param(
            {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]},
            "names T5ForConditionalGeneration, which is not a causal",
            marks=pytest.mark.bad_input(
                "model",
                "a model that is not a causal language model",
                "a one-line error message names its architecture",
            ),
        ),
        pytest.param(
            {"quantization_config": {"quant_method": "awq", "bits": 4}},
            "weights are quantized",
            marks=pytest.mark.bad_input(
                "model", "quantized weights", "a one-line error message says so"
            ),
        ),
        ({"ple_layer_ids": [0]}, "hashes of token ids .ple_layer_ids in config"),
    ],
)
def test_a_config_that_cannot_be_used_is_reported(changes, message, tiny_source):
    change_config(tiny_source, **changes)
    (tiny_source / "modeling.py").write_text("raise RuntimeError('this ran')")
    with pytest.raises(UserError, match=message):
        check_source(tiny_source)


@pytest.mark.bad_input(
    "model",
    "a model folder without config.json, or with a damaged one",
    "a one-line error message names the file",
)
@pytest.mark.parametrize("content", [None, "{"])
def test_no_config_is_reported(content, tiny_source):
    (tiny_source / "config.json").unlink()
    if content:
        (tiny_source / "config.json").write_text(content)
    with pytest.raises(UserError, match=r"config\.json"):
        check_source(tiny_source)


@pytest.mark.bad_input(
    "model",
    "weights without an embedding matrix or a head",
    "a one-line error message names the matrix",
)
@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "lm_head.weight"])
def test_a_matrix_that_the_files_lack_is_reported(name, tiny_source):
    weights = load_file(tiny_source / "model.safetensors")
    del weights[name]
    save_file(weights, tiny_source / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"contain no (input matrix|lm_head\.weight)"):
        check_source(tiny_source)


@pytest.mark.bad_input(
    "model",
    "a model without a tokenizer, or with a slow one",
    "a one-line error message says what is missing or how to convert it",
)
def test_a_bare_sentencepiece_tokenizer_is_reported_with_the_faithful_conversion(tiny_source):
    (tiny_source / "tokenizer.json").rename(tiny_source / "tokenizer.model")
    with pytest.raises(UserError, match="sentencepiece_to_fast"):
        check_source(tiny_source)


@pytest.mark.bad_input(
    "model",
    "a tokenizer with more tokens than the model has rows",
    "a one-line error message gives both numbers",
)
def test_a_tokenizer_with_more_tokens_than_rows_does_not_belong(tiny_source, tiny_llama):
    tiny_llama(200).save_pretrained(tiny_source)
    with pytest.raises(UserError, match="tokens up to id 270 but the model has only 200 rows"):
        check_source(tiny_source)


def test_added_tokens_without_a_row_are_accepted_unless_they_have_a_role(
    tiny_source, tiny_llama, caplog
):
    tiny_llama(271, tied=False).save_pretrained(tiny_source)
    tokenizer = load_tokenizer(tiny_source)
    tokenizer.add_tokens(["<image>"], special_tokens=True)
    tokenizer.save_pretrained(tiny_source)
    check_source(tiny_source)
    assert "no rows for 1 added tokens of its tokenizer, such as '<image>'" in caplog.text
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    tokenizer.save_pretrained(tiny_source)
    with pytest.raises(UserError, match=r"'\[PAD\]' \(pad_token\) has id 272 but the model"):
        check_source(tiny_source)


@pytest.mark.bad_input(
    "model",
    "a vocabulary that cannot be changed: matrices of different sizes or quantized ones, "
    "embeddings of hashed token ids",
    "a one-line error message gives the reason before any work",
)
def test_a_model_with_more_input_rows_than_output_rows_is_refused(tmp_path):
    from tests.architectures import tiny_model, tokenizers

    source, _ = tokenizers()
    tiny_model(AutoModelForCausalLM, "cpmant", len(source)).save_pretrained(tmp_path)
    source.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"has \d+ rows and its output matrix 281;"):
        check_source(tmp_path)
