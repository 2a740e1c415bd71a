"""Opening sources and reading their matrices, compared with transformers."""

import copy
import json

import numpy
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from lexigraft.errors import UserError
from lexigraft.source.matrices import (
    find_matrices,
    is_tied,
    matrix_rows,
    read_matrices,
)
from lexigraft.source.model import SourceModel, load_model, open_source
from lexigraft.source.saving import save_model
from lexigraft.source.tokenizer import load_tokenizer


def rewrite(folder, change):
    """Change the tensors of a folder's one weight file in place."""
    weights = load_file(folder / "model.safetensors")
    save_file(change(weights), folder / "model.safetensors", metadata={"format": "pt"})


def matrices_of(model):
    return {
        "input": model.get_input_embeddings().weight.detach().numpy(),
        "output": model.get_output_embeddings().weight.detach().numpy(),
    }


@pytest.fixture
def gemma2(tmp_path):
    """The folder of a small Gemma 2 whose soft cap and sliding window both matter."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        "gemma2", vocab_size=50, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16, sliding_window=8,
        query_pre_attn_scalar=1, attn_logit_softcapping=0.05, initializer_range=0.5,
    )  # fmt: skip
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    return tmp_path


def pretend_gpu(monkeypatch):
    monkeypatch.setattr("lexigraft.hardware.device", lambda: torch.device("cuda"))


def test_flex_attention_keeps_the_soft_cap_and_the_window_of_gemma_2(gemma2, monkeypatch):
    ids = torch.randint(50, (2, 24), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, 15:] = 0
    labels = ids.masked_fill(mask == 0, -100)
    documents = torch.arange(12).repeat(2, 2)

    def losses(**changes):
        model = load_model(gemma2, torch.float32)
        for key, value in changes.items():
            for layer in model.model.layers:
                setattr(layer.self_attn, key, value)
        with torch.no_grad():
            # A batch with padding, and one with separate documents.
            batches = ({"attention_mask": mask}, {"position_ids": documents})
            outputs = [model(input_ids=ids, labels=labels, **batch) for batch in batches]
        return model.config._attn_implementation, torch.stack([one.loss for one in outputs])

    chosen, expected = losses()
    assert chosen == "eager"
    assert not torch.allclose(losses(attn_logit_softcapping=None)[1], expected)
    pretend_gpu(monkeypatch)
    monkeypatch.setenv("LEXIGRAFT_ATTENTION", "flex_attention")
    with torch.compiler.set_stance("force_eager"):  # its compilation for CPUs fails
        chosen, found = losses()
    assert chosen == "flex_attention"
    torch.testing.assert_close(found, expected)


@pytest.mark.bad_input(
    "model",
    "an attention implementation that is unknown or not installed",
    "a one-line error message says what is missing",
)
@pytest.mark.parametrize(
    ("attention", "on_gpu", "message"),
    [
        ("flex_attention", False, "there is no GPU"),
        ("flash_attention_2", True, "flash-attn is not installed"),
        ("flash", False, "LEXIGRAFT_ATTENTION or machine.attention: 'flash' is not one of"),
    ],
)
def test_attention_that_is_not_there_is_one_line(gemma2, monkeypatch, attention, on_gpu, message):
    if on_gpu:
        pretend_gpu(monkeypatch)
    monkeypatch.setenv("LEXIGRAFT_ATTENTION", attention)
    with pytest.raises(UserError, match=message):
        load_model(gemma2, torch.float32)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox", "opt", "gemma2"])
def test_the_matrices_read_are_those_that_transformers_loads(family, tmp_path):
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {
        "gpt2": {"n_embd": 32, "n_layer": 1, "n_head": 2},
        "opt": {"word_embed_proj_dim": 32, "ffn_dim": 32},
    }.get(family, {})
    config = AutoConfig.for_model(
        family, vocab_size=50, bos_token_id=1, eos_token_id=2, pad_token_id=2,
        hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        **({"num_key_value_heads": 1, "head_dim": 16} if family in ("llama", "gemma2") else {}),
        **sizes,
    )  # fmt: skip
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    model = load_model(tmp_path, torch.float32)
    read, loaded = read_matrices(tmp_path), matrices_of(model)
    numpy.testing.assert_array_equal(read["input"], loaded["input"])
    numpy.testing.assert_array_equal(read.get("output", read["input"]), loaded["output"])
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for which, name in find_matrices(tmp_path).names.items():
        numpy.testing.assert_array_equal(parameters[name].detach().numpy(), loaded[which])
    assert matrix_rows(tmp_path) == 50
    assert is_tied(tmp_path) == (loaded["input"] is loaded["output"] or "output" not in read)


@pytest.mark.parametrize("added", [0.0, 1.0])
def test_tying_is_judged_as_transformers_does_when_the_file_holds_both(added, tiny_llama, tmp_path):
    tiny_llama(40, tied=True).save_pretrained(tmp_path)
    rewrite(
        tmp_path, lambda w: w | {"lm_head.weight": w["model.embed_tokens.weight"].clone() + added}
    )
    model = load_model(tmp_path, torch.float32)
    loaded_as_tied = model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert is_tied(tmp_path) == loaded_as_tied == (added == 0.0)
    assert ("output" in read_matrices(tmp_path)) == (added != 0.0)


def test_a_source_opens_where_its_file_points(tiny_source, tmp_path):
    folder = tmp_path / "results" / "toy"
    folder.mkdir(parents=True)
    source = {"kind": "hub", "path": str(tiny_source), "repo": "a/b", "revision": "abc"}
    (folder / "source.json").write_text(json.dumps(source))
    assert open_source(folder) == SourceModel(tiny_source, "toy", "abc")


def test_a_source_whose_model_was_deleted_is_reported(tmp_path):
    (tmp_path / "source.json").write_text(json.dumps({"path": str(tmp_path / "gone")}))
    with pytest.raises(UserError, match=r"its model is no longer in .*gone"):
        open_source(tmp_path)


@pytest.mark.parametrize("content", [None, "{", "{}", "[]"])
def test_a_source_without_a_readable_file_is_reported(content, tmp_path):
    if content is not None:
        (tmp_path / "source.json").write_text(content)
    with pytest.raises(UserError, match=r"source\.json: cannot be read"):
        open_source(tmp_path)


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Haus", "##tür", "haus", "ü", "u"]


def test_a_bert_without_a_tokenizer_json_has_the_word_pieces_of_its_vocabulary(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    kept = {"do_lower_case": False, "strip_accents": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(kept))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.get_vocab() == {piece: number for number, piece in enumerate(PIECES)}
    assert tokenizer.tokenize("Haustür haus ü Tor") == ["Haus", "##tür", "haus", "ü", "[UNK]"]
    assert tokenizer.mask_token == "[MASK]"
    # A vocabulary of that name is another thing in other models: PhoBERT's is of BPE.
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "roberta"}))
    with pytest.raises(UserError, match=r"has no tokenizer\.json"):
        load_tokenizer(tmp_path)


TINY_TEXT = {
    "vocab_size": 61, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2,
}  # fmt: skip
TINY_VISION = {
    "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
    "image_size": 4, "patch_size": 2,
}  # fmt: skip


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("model_type", ["fuyu", "gemma3"])
def test_of_nested_tie_flags_the_one_counts_that_transformers_follows(
    model_type, outer, inner, tmp_path
):
    from transformers import AutoConfig, AutoModelForCausalLM

    text = {**TINY_TEXT, "tie_word_embeddings": inner}
    if model_type == "fuyu":
        text["model_type"] = "persimmon"
        more = {"patch_size": 2, "num_channels": 1, "image_size": 4, **TINY_TEXT}
    else:
        text |= {"num_key_value_heads": 1, "head_dim": 8, "pad_token_id": 0}
        more = {"vision_config": TINY_VISION, "mm_tokens_per_image": 1}
    config = AutoConfig.for_model(model_type, text_config=text, tie_word_embeddings=outer, **more)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    model = load_model(tmp_path, torch.float32)
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert is_tied(tmp_path) == tied == outer
    assert ("output" in read_matrices(tmp_path)) == (not tied)


def test_each_of_several_chat_templates_is_among_the_files(smollm2_cut, tmp_path):
    tokenizer = copy.deepcopy(smollm2_cut)
    tokenizer.chat_template = {"default": "{{ messages }}", "tool_use": "{{ tools }}"}
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=1,
    )  # fmt: skip
    files = save_model(LlamaForCausalLM(config), tokenizer, tmp_path)
    assert {"model.safetensors", "additional_chat_templates/tool_use.jinja"} <= {*files}
    assert all((tmp_path / file).is_file() for file in files)
    assert AutoTokenizer.from_pretrained(tmp_path).chat_template == tokenizer.chat_template


def test_sharded_models_read_like_whole_ones(tiny_source, tmp_path):
    whole = read_matrices(tiny_source)
    load_model(tiny_source, torch.float32).save_pretrained(
        tmp_path / "sharded", max_shard_size="20kB"
    )
    assert len(list((tmp_path / "sharded").glob("*.safetensors"))) > 1
    sharded = read_matrices(tmp_path / "sharded")
    for which in ("input", "output"):
        numpy.testing.assert_array_equal(sharded[which], whole[which])


def test_bfloat16_matrices_come_as_float32_of_the_same_values(tiny_source, tmp_path):
    model = load_model(tiny_source, torch.bfloat16)
    model.save_pretrained(tmp_path / "half")
    read = read_matrices(tmp_path / "half")["input"]
    assert read.dtype == numpy.float32
    numpy.testing.assert_array_equal(read, model.get_input_embeddings().weight.float().detach())


def test_a_tokenizer_is_what_its_file_says_whatever_class_the_config_names(tiny_source):
    expected = load_tokenizer(tiny_source)("the  cat sat on a mat").input_ids
    config = json.loads((tiny_source / "tokenizer_config.json").read_text())
    config["tokenizer_class"] = "LlamaTokenizer"
    (tiny_source / "tokenizer_config.json").write_text(json.dumps(config))
    assert load_tokenizer(tiny_source)("the  cat sat on a mat").input_ids == expected


@pytest.mark.bad_input("model", "a damaged tokenizer", "a one-line error message names the file")
def test_a_damaged_tokenizer_is_named(tiny_source):
    (tiny_source / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match=r"tokenizer\.json: not a tokenizer"):
        load_tokenizer(tiny_source)
