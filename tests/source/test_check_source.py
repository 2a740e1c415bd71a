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


@pytest.mark.bad_input(
    "model",
    "a model folder without config.json, or with a damaged one",
    "a one-line error message names the file",
)
def test_no_config_is_reported(tiny_source):
    (tiny_source / "config.json").unlink()
    with pytest.raises(UserError, match=r"has no config\.json"):
        check_source(tiny_source)


@pytest.mark.bad_input(
    "model",
    "an unknown model type, or a config without an architecture",
    "a one-line error message names the type or says that the architecture is missing",
)
def test_an_unknown_model_type_is_reported(tiny_source):
    change_config(tiny_source, model_type="mystery")
    with pytest.raises(UserError, match="mystery"):
        check_source(tiny_source)


@pytest.mark.bad_input(
    "hostile", "code in a model's repository", "never run; a one-line error message says so"
)
def test_remote_code_is_refused(tiny_source):
    change_config(tiny_source, auto_map={"AutoModelForCausalLM": "modeling.Evil"})
    (tiny_source / "modeling.py").write_text("raise RuntimeError('this ran')")
    with pytest.raises(UserError, match="needs code from its repository"):
        check_source(tiny_source)


@pytest.mark.bad_input(
    "model",
    "a model that is not a causal language model",
    "a one-line error message names its architecture",
)
@pytest.mark.parametrize(
    ("kind", "architecture"),
    [
        ("bert", "BertForMaskedLM"),
        ("t5", "T5ForConditionalGeneration"),
        ("mbart", "MBartForConditionalGeneration"),
        ("llama", "LlamaForSequenceClassification"),
        ("llama", "LlamaModel"),
    ],
)
def test_a_model_that_is_no_causal_language_model_is_named(kind, architecture, tiny_source):
    change_config(tiny_source, model_type=kind, architectures=[architecture])
    with pytest.raises(UserError, match=f"names {architecture}, which is not a causal"):
        check_source(tiny_source)


@pytest.mark.bad_input("model", "quantized weights", "a one-line error message says so")
def test_quantized_weights_are_refused(tiny_source):
    change_config(tiny_source, quantization_config={"quant_method": "awq", "bits": 4})
    with pytest.raises(UserError, match="weights are quantized"):
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
def test_a_bare_sentencepiece_tokenizer_is_reported_with_the_faithful_way_to_convert_it(
    tiny_source,
):
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


def add_tokens(folder, *tokens, **roles):
    tokenizer = load_tokenizer(folder)
    tokenizer.add_tokens(list(tokens), special_tokens=True)
    tokenizer.add_special_tokens(roles)
    tokenizer.save_pretrained(folder)


def test_added_tokens_without_a_row_are_accepted_with_a_warning(tiny_source, tiny_llama, caplog):
    tiny_llama(271, tied=False).save_pretrained(tiny_source)
    add_tokens(tiny_source, "<image>")
    check_source(tiny_source)
    assert "no rows for 1 added tokens of its tokenizer, such as '<image>'" in caplog.text


def test_a_role_without_a_row_is_named(tiny_source, tiny_llama):
    tiny_llama(271, tied=False).save_pretrained(tiny_source)
    add_tokens(tiny_source, pad_token="[PAD]")
    with pytest.raises(
        UserError, match=r"'\[PAD\]' \(pad_token\) has id 271 but the model has only"
    ):
        check_source(tiny_source)


def save_tiny(auto, model_type, folder):
    from tests.architectures import tiny_model, tokenizers

    source, _ = tokenizers()
    tiny_model(auto, model_type, len(source)).save_pretrained(folder)
    source.save_pretrained(folder)


@pytest.mark.bad_input(
    "model",
    "a vocabulary that cannot be changed: matrices of different sizes or quantized ones, "
    "embeddings of hashed token ids",
    "a one-line error message gives the reason before any work",
)
def test_a_model_with_more_input_rows_than_output_rows_is_refused(tmp_path):
    save_tiny(AutoModelForCausalLM, "cpmant", tmp_path)
    with pytest.raises(UserError, match=r"has \d+ rows and its output matrix 281;"):
        check_source(tmp_path)


@pytest.mark.bad_input(
    "model",
    "a vocabulary that cannot be changed: matrices of different sizes or quantized ones, "
    "embeddings of hashed token ids",
    "a one-line error message gives the reason before any work",
)
@pytest.mark.parametrize("setting", [{"ple_layer_ids": [0]}, {"encoder_hash_byte_group_vocab": 9}])
def test_a_model_that_hashes_token_ids_is_refused(setting, tiny_source):
    change_config(tiny_source, **setting)
    with pytest.raises(UserError, match=f"hashes of token ids .{next(iter(setting))} in config"):
        check_source(tiny_source)
