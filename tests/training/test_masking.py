"""Masks: whom they strike, how often, and that a visit always has the same one."""

import numpy as np
import pytest

from lexigraft.errors import UserError
from lexigraft.training.data import IGNORED, Blocks, Sequence, Sequences, collate
from lexigraft.training.masking import MaskedSequences, Masker, as_read
from lexigraft.training.settings import Phase


@pytest.fixture
def masker(roberta_tokenizer):
    return Masker(roberta_tokenizer)


def ordinary(tokenizer, count):
    """Random tokens that are not special."""
    special = set(tokenizer.all_special_ids)
    ids = [number for number in range(len(tokenizer)) if number not in special]
    return np.random.default_rng(0).choice(ids, count)


def test_of_the_tokens_drawn_four_fifths_are_masked_and_a_tenth_each_is_another_and_itself(
    masker, roberta_tokenizer
):
    tokens = ordinary(roberta_tokenizer, 40_000)
    read, labels = masker(tokens, 1)
    drawn = labels != IGNORED
    assert (labels[drawn] == tokens[drawn]).all() and (read[~drawn] == tokens[~drawn]).all()
    assert drawn.mean() == pytest.approx(0.15, abs=0.01)
    assert (read[drawn] == roberta_tokenizer.mask_token_id).mean() == pytest.approx(0.8, abs=0.02)
    assert (read[drawn] == tokens[drawn]).mean() == pytest.approx(0.1, abs=0.015)


def test_the_share_is_the_phase_s(roberta_tokenizer):
    tokens = ordinary(roberta_tokenizer, 20_000)
    _, labels = Masker(roberta_tokenizer, 0.4)(tokens, 1)
    assert (labels != IGNORED).mean() == pytest.approx(0.4, abs=0.02)


def test_special_tokens_and_what_counts_for_nothing_are_never_drawn(masker, roberta_tokenizer):
    tokens = np.tile([0, 40, 2, 50, 1], 2_000)
    targets = tokens != 50
    read, labels = masker(tokens, 3, targets)
    assert (labels[tokens == 40] != IGNORED).any()
    assert (labels[tokens != 40] == IGNORED).all()
    assert (read[tokens != 40] == tokens[tokens != 40]).all()


def test_a_seed_masks_the_same_tokens(masker, roberta_tokenizer):
    tokens = ordinary(roberta_tokenizer, 500)
    one, same, other = (masker(tokens, seed) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(one, same, strict=True))
    assert (one[1] != other[1]).any()


def test_a_tokenizer_without_a_mask_token_is_refused(without_bos):
    with pytest.raises(UserError, match="mlm needs a tokenizer with a mask token"):
        Masker(without_bos)


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
