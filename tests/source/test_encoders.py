"""Masked language models as sources: their class, and their position embeddings."""

import json
import shutil

import pytest
import torch
from transformers import AutoModelForMaskedLM

from lexigraft.errors import UserError
from lexigraft.source.model import is_masked, load_model
from lexigraft.source.positions import first_position, follow_padding, positions_of
from lexigraft.source.preparation import check_source, prepare_source
from lexigraft.source.tokenizer import load_tokenizer


def test_an_encoder_is_loaded_with_its_masked_head(roberta_folder, tiny_roberta, tiny_llama):
    model = load_model(roberta_folder, torch.float32)
    assert is_masked(model) and not is_masked(tiny_llama(40))
    expected = tiny_roberta(len(load_tokenizer(roberta_folder)))
    tokens = torch.arange(4, 20)[None]
    assert torch.equal(model(tokens).logits, expected(tokens).logits)


def test_a_source_must_be_what_its_entry_says(roberta_folder, tmp_path, tiny_llama):
    check_source(roberta_folder, "masked")
    with pytest.raises(UserError, match=r"not a causal language model .*set `kind: masked`"):
        prepare_source({"folder": str(roberta_folder)}, tmp_path / "source")
    files, facts = prepare_source(
        {"folder": str(roberta_folder), "kind": "masked"}, tmp_path / "source"
    )
    assert files == ["source.json"]
    assert (facts["architecture"], facts["tied"]) == ("RobertaForMaskedLM", True)
    tiny_llama(40).save_pretrained(tmp_path / "llama")
    with pytest.raises(UserError, match=r"not a masked language model .*set `kind: causal`"):
        check_source(tmp_path / "llama", "masked")


def test_roles_that_a_folder_leaves_to_its_class_are_found(roberta_folder, tmp_path):
    folder = shutil.copytree(roberta_folder, tmp_path / "old")
    # As roberta-base has it.
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 128}))
    whole, old = load_tokenizer(roberta_folder), load_tokenizer(folder)
    for role in ("bos", "eos", "cls", "sep", "pad", "unk", "mask"):
        name = f"{role}_token_id"
        assert getattr(old, name) == getattr(whole, name) is not None
    texts = ["one <mask> two", " </s>", "x"]
    assert old(texts)["input_ids"] == whole(texts)["input_ids"]
    assert old("a", "b")["input_ids"] == whole("a", "b")["input_ids"]


def test_tokens_that_fit_are_counted_from_behind_the_padding_token(tiny_roberta, tiny_llama):
    model = tiny_roberta(40)
    assert (positions_of(model), first_position(model)) == (128, 2)
    assert (positions_of(tiny_llama(40)), first_position(tiny_llama(40))) == (512, 0)
    with torch.no_grad():
        model(torch.full((1, 128), 5))
        with pytest.raises((IndexError, RuntimeError)):
            model(torch.full((1, 129), 5))


@pytest.mark.parametrize("padding", [0, 1, 4, 39])
def test_a_text_keeps_its_positions_when_another_token_pads(tiny_roberta, tmp_path, padding):
    model = tiny_roberta(40)
    texts = torch.tensor([[6, 7, 8, 9, 10, 11], [12, 13, 14, 15, 16, 17]])
    with torch.no_grad():
        before = model(texts).logits
        follow_padding(model, padding)
        model.config.pad_token_id = padding
        assert torch.equal(model(texts).logits, before)
        assert positions_of(model) == 128
        model(torch.full((1, 128), 5))
        padded = torch.cat([texts, torch.full((2, 3), padding)], dim=1)
        mask = (padded != padding).long()
        found = model(input_ids=padded, attention_mask=mask).logits[:, :6]
        torch.testing.assert_close(found, before)
        model.save_pretrained(tmp_path)
        again = AutoModelForMaskedLM.from_pretrained(tmp_path)
        assert torch.equal(again(texts).logits, before)
