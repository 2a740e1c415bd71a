"""Masks: whom they strike, how often, and that a visit always has the same one."""

import numpy as np
import pytest

from lexigraft.inference.chunked_logits import IGNORED
from lexigraft.inference.masked_likelihood import Masker
from lexigraft.training.data import Blocks, Sequence, Sequences, collate
from lexigraft.training.masking import MaskedSequences, as_read
from lexigraft.training.settings import Phase


@pytest.fixture
def masker(roberta_tokenizer):
    return Masker(roberta_tokenizer)


def ordinary(tokenizer, count):
    """Random tokens that are not special."""
    special = set(tokenizer.all_special_ids)
    ids = [number for number in range(len(tokenizer)) if number not in special]
    return np.random.default_rng(0).choice(ids, count)


def sequences_of(tokenizer):
    text = Blocks(ordinary(tokenizer, 320).astype(np.int32), 64)
    return Sequences(text, np.array([0, 1, 2, 3, 4, 0, 1, 2, 3, 4]))


def test_each_visit_has_a_mask_of_its_own_and_keeps_it(masker, roberta_tokenizer):
    plain = sequences_of(roberta_tokenizer)
    masked = MaskedSequences(plain, masker, ["study", "cell", "phase-0"])
    first, again, second = masked[0], masked[0], masked[5]
    assert (first.tokens == again.tokens).all() and (first.labels == again.labels).all()
    assert (first.labels != second.labels).any()  # the same text, visited again
    for index in range(len(masked)):
        drawn = masked[index].labels != IGNORED
        assert (masked[index].labels[drawn] == plain[index].tokens[drawn]).all()
    other = MaskedSequences(plain, masker, ["study", "cell", "phase-1"])
    assert (other[0].labels != first.labels).any()
    assert (masked.tokens() == plain.tokens()).all()


def test_a_batch_has_labels_where_tokens_are_masked(masker, roberta_tokenizer):
    masked = MaskedSequences(sequences_of(roberta_tokenizer), masker, ["cell"])
    short = Sequence(np.array([7, 8]), labels=np.array([IGNORED, 9]))
    batch = collate([masked[0], short])
    assert batch["labels"].shape == (2, 64)
    assert (batch["labels"][0].numpy() == masked[0].labels).all()
    assert batch["labels"][1, :3].tolist() == [IGNORED, 9, IGNORED]
    assert batch["input_ids"][1, :2].tolist() == [7, 8]
    assert batch["attention_mask"].sum(1).tolist() == [64, 2]


def test_only_phases_of_mlm_are_masked(roberta_tokenizer):
    plain = sequences_of(roberta_tokenizer)
    for objective in ("clm", "mlm"):
        phase = Phase(trainable=("all",), length=64, objective=objective)
        read = as_read(plain, phase, roberta_tokenizer, ["cell"])
        assert (read is plain) == (objective == "clm")
