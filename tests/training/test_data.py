"""Packing loses no token, and only padding is masked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexigraft.errors import UserError
from lexigraft.inference.chunked_logits import targets_ahead
from lexigraft.inference.text_encoding import encode
from lexigraft.training.data import (
    Sequence,
    Sequences,
    collate,
    pack,
    read_sentences,
    visiting_order,
)

SENTENCES = st.lists(st.lists(st.integers(0, 49_151), max_size=9), min_size=1, max_size=12)


@given(sentences=SENTENCES, length=st.integers(2, 7))
def test_blocks_in_order_are_the_sentences_in_order(sentences, length):
    blocks = pack(sentences, length)
    tokens = [token for ids in sentences for token in ids]
    packed = [token for index in range(len(blocks)) for token in blocks[index].tokens.tolist()]
    # A lone last token has nothing to predict.
    assert packed == (tokens[:-1] if len(tokens) % length == 1 else tokens)


@given(sentences=SENTENCES, length=st.integers(2, 7))
def test_all_blocks_but_the_last_are_full(sentences, length):
    blocks = pack(sentences, length)
    sizes = [len(blocks[index].tokens) for index in range(len(blocks))]
    assert all(size == length for size in sizes[:-1])
    assert all(2 <= size <= length for size in sizes[-1:])


@given(blocks=st.integers(1, 20), epochs=st.sampled_from([0.5, 1, 1.5, 2, 3]), cut=st.floats(0, 1))
def test_phases_share_the_passes_without_gap_or_overlap(blocks, epochs, cut):
    names = ["study", "training", "cell"]
    whole = visiting_order(blocks, epochs, (0, 1), names)
    parts = [visiting_order(blocks, epochs, share, names) for share in ((0, cut), (cut, 1))]
    assert np.concatenate(parts).tolist() == whole.tolist()
    assert len(whole) == max(1, round(blocks * epochs))


@given(blocks=st.integers(1, 20))
def test_every_pass_visits_every_block_once(blocks):
    order = visiting_order(blocks, 2, (0, 1), ["s"])
    assert sorted(order[:blocks]) == sorted(order[blocks:]) == list(range(blocks))


def test_cells_and_passes_have_orders_of_their_own():
    first, other = (visiting_order(50, 2, (0, 1), ["study", name]).tolist() for name in "ab")
    assert first != other
    assert first[:50] != first[50:]
    assert first == visiting_order(50, 2, (0, 1), ["study", "a"]).tolist()


def test_only_padding_is_masked_though_it_may_be_the_eos_token(without_bos):
    eos = without_bos.eos_token_id
    blocks = pack(encode(without_bos, ["one", "two", "three four"]), 8)
    batch = collate([blocks[index] for index in range(len(blocks))])
    assert (batch["input_ids"][0] == eos).sum() >= 2
    real = batch["attention_mask"].bool()
    assert (batch["labels"][real] == batch["input_ids"][real]).all()
    assert (batch["labels"][~real] == -100).all() and (~real).any()


def test_sequences_count_their_real_tokens():
    sequences = Sequences(pack([list(range(10))], 4), np.array([2, 0]))
    assert sequences.tokens().tolist() == [2, 4]
    assert [sequences[at].tokens.tolist() for at in range(2)] == [[8, 9], [0, 1, 2, 3]]


def test_the_first_sentences_of_a_file_are_read_in_order(tmp_path):
    # U+2028 ends no sentence.
    (tmp_path / "train.txt").write_text("a\u2028b\nc\nd\n", "utf-8")
    assert read_sentences(tmp_path, "train", 2) == ["a\u2028b", "c"]
    assert read_sentences(tmp_path, "train") == ["a\u2028b", "c", "d"]


def test_a_missing_text_is_named(tmp_path):
    with pytest.raises(UserError, match=r"heldout\.txt: no sentences"):
        read_sentences(tmp_path, "heldout")


@given(sentences=SENTENCES, length=st.integers(2, 7))
def test_apart_positions_count_from_the_last_beginning(sentences, length):
    blocks = pack(sentences, length, apart=True)
    firsts = [at == 0 for ids in sentences for at in range(len(ids))]
    for index in range(len(blocks)):
        block = blocks[index]
        begins = firsts[index * length : index * length + len(block.tokens)]
        assert block.targets.tolist() == [not begin for begin in begins]
        expected, position = [], -1
        for begin in begins:
            position = 0 if begin else position + 1
            expected.append(position)
        assert block.positions.tolist() == expected


@given(sentences=SENTENCES, length=st.integers(2, 7))
def test_apart_and_joined_blocks_hold_the_same_tokens(sentences, length):
    joined, apart = pack(sentences, length), pack(sentences, length, apart=True)
    assert len(joined) == len(apart)
    for index in range(len(joined)):
        assert joined[index].tokens.tolist() == apart[index].tokens.tolist()


def test_a_batch_with_documents_apart_has_positions_and_no_mask():
    blocks = pack([[1, 2, 3], [4, 5], [6, 7]], 5, apart=True)
    batch = collate([blocks[0], Sequence(np.array([8, 9], dtype=np.int32)), blocks[1]])
    assert set(batch) == {"input_ids", "position_ids", "labels"}
    # Padding is a document of its own at every place.
    assert batch["position_ids"].tolist() == [[0, 1, 2, 0, 1], [0, 1, 0, 0, 0], [0, 1, 0, 0, 0]]
    assert batch["labels"][0].tolist() == [-100, 2, 3, -100, 5]
    assert batch["labels"][1:].tolist() == [[8, 9, -100, -100, -100], [-100, 7, -100, -100, -100]]


def test_no_token_of_another_document_is_a_target_however_far_ahead():
    blocks = pack([[1, 2, 3], [4, 5, 6, 7]], 7, apart=True)
    batch = collate([blocks[0]])
    two_ahead = targets_ahead(batch["labels"], 2, batch["position_ids"])
    assert two_ahead.tolist() == [[3, -100, -100, 6, 7, -100, -100]]
