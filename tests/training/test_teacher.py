"""A model teaches if it has the cell's vocabulary and room for its sequences."""

import json

import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.training.settings import read_strategy
from lexigraft.training.teacher import check_teacher, load_teacher

DISTILL = {"objective": "distill", "distill": {"teacher": "large"}, "trainable": ["all"]}


def strategy(length=32):
    return read_strategy({"phases": [{**DISTILL, "length": length}]})


@pytest.fixture
def teacher(tmp_path, tiny_llama, without_bos):
    """`teacher(tokenizer, rows)`: the folder of a source model with a tokenizer."""

    def build(tokenizer=without_bos, rows=320):
        folder = tmp_path / "large"
        tiny_llama(rows).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / "source.json").write_text(json.dumps({"kind": "folder", "path": "."}))
        return folder

    return build


def with_tokens(tokenizer, *added):
    """A copy of a tokenizer with more tokens behind its own."""
    import copy

    larger = copy.deepcopy(tokenizer)
    larger.add_tokens(list(added))
    return larger


def refused(*arguments):
    with pytest.raises(UserError) as error:
        check_teacher(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_teacher_with_the_same_vocabulary_teaches(teacher, without_bos):
    check_teacher(teacher(), without_bos, strategy())


def test_tokens_that_the_teacher_has_beyond_the_cells_do_not_matter(teacher, without_bos):
    check_teacher(teacher(with_tokens(without_bos, "<extra>")), without_bos, strategy())


def test_a_token_that_the_teacher_lacks_is_named(teacher, without_bos):
    larger = with_tokens(without_bos, "ཀ")
    message = refused(teacher(), larger, strategy())
    assert (
        f"distill.teacher: large lacks the cell's token 'ཀ' with id {len(without_bos)}" in message
    )


def test_a_token_with_another_id_is_named(teacher, without_bos):
    theirs, ours = with_tokens(without_bos, "a b", "c d"), with_tokens(without_bos, "c d", "a b")
    message = refused(teacher(theirs), ours, strategy())
    first = len(without_bos)
    assert f"large gives id {first + 1} to the cell's token 'c d' with id {first};" in message


def test_a_teacher_must_hold_the_sequences(teacher, without_bos):
    message = refused(teacher(), without_bos, strategy(length=513))
    assert "large holds 512 tokens, and a sequence of its phase has 513" in message


def test_a_teacher_predicts_next_tokens(teacher, without_bos):
    folder = teacher()
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "roberta", "architectures": ["RobertaForMaskedLM"]}
    (folder / "config.json").write_text(json.dumps(config))
    assert "large predicts masked tokens" in refused(folder, without_bos, strategy())


def test_a_teacher_is_loaded_frozen_and_in_the_jobs_precision(teacher, monkeypatch):
    folder = teacher()
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        monkeypatch.setenv("LEXIGRAFT_PRECISION", name)
        model = load_teacher(folder)
        assert model.dtype == dtype and not model.training
        assert not any(parameter.requires_grad for parameter in model.parameters())
