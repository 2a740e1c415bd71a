"""Sequences of texts and samples: nothing is lost, and the loss counts the right tokens."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lexigraft.errors import UserError
from lexigraft.inference.chunked_logits import targets_ahead
from lexigraft.inference.text_encoding import encode
from lexigraft.training import data
from lexigraft.training.data import (
    SampleSequences,
    SequenceDataset,
    TrainingSequence,
    collate,
    concatenate,
    encode_samples,
    pack,
)

SENTENCES = st.lists(st.lists(st.integers(0, 49_151), max_size=9), min_size=1, max_size=12)


@given(sentences=SENTENCES, length=st.integers(2, 7))
def test_full_blocks_in_order_are_the_sentences_in_order(sentences, length):
    blocks = pack(concatenate(sentences), length)
    tokens = [token for ids in sentences for token in ids]
    packed = [blocks[index].tokens.tolist() for index in range(len(blocks))]
    # A lone last token has nothing to predict.
    flat = [token for block in packed for token in block]
    assert flat == (tokens[:-1] if len(tokens) % length == 1 else tokens)
    sizes = list(map(len, packed))
    assert all(size == length for size in sizes[:-1])
    assert all(2 <= size <= length for size in sizes[-1:])
    assert blocks.lengths().tolist() == sizes


@given(sentences=SENTENCES, length=st.integers(2, 7), size=st.integers(1, 4))
def test_groups_lose_their_incomplete_last_sequence_as_in_run_clm(sentences, length, size):
    def group_texts(batch):  # as transformers' example does
        tokens = [token for ids in batch for token in ids]
        total = len(tokens) // length * length if len(tokens) >= length else len(tokens)
        return [tokens[begin : begin + length] for begin in range(0, total, length)]

    batches = [sentences[begin : begin + size] for begin in range(0, len(sentences), size)]
    expected = [block for batch in batches for block in group_texts(batch) if len(block) > 1]
    with patch.object(data, "GROUP", size):
        blocks = pack(concatenate(sentences), length, "grouped")
    assert [blocks[index].tokens.tolist() for index in range(len(blocks))] == expected


@given(sentences=SENTENCES, length=st.integers(2, 7))
def test_single_texts_are_cut_to_the_length_of_a_sequence(sentences, length):
    expected = [ids[:length] for ids in sentences if len(ids) > 1]
    assume(expected)
    blocks = pack(concatenate(sentences), length, "single")
    assert [blocks[index].tokens.tolist() for index in range(len(blocks))] == expected
    assert blocks.lengths().tolist() == list(map(len, expected))


def test_only_padding_is_masked_even_if_it_is_the_eos_token(without_bos):
    eos = without_bos.eos_token_id
    blocks = pack(concatenate(encode(without_bos, ["one", "two", "three four"])), 8)
    batch = collate([blocks[index] for index in range(len(blocks))])
    assert (batch["input_ids"][0] == eos).sum() >= 2
    real = batch["attention_mask"].bool()
    assert (batch["labels"][real] == batch["input_ids"][real]).all()
    assert (batch["labels"][~real] == -100).all() and (~real).any()


def test_sequences_count_their_real_tokens():
    sequences = SequenceDataset(pack(concatenate([list(range(10))]), 4), np.array([2, 0]))
    assert sequences.tokens().tolist() == [2, 4]
    assert [sequences[at].tokens.tolist() for at in range(2)] == [[8, 9], [0, 1, 2, 3]]


@given(sentences=SENTENCES, length=st.integers(2, 7))
def test_positions_restart_with_each_separate_document(sentences, length):
    texts = concatenate(sentences)
    joined, blocks = pack(texts, length), pack(texts, length, "apart")
    assert len(joined) == len(blocks)
    firsts = [at == 0 for ids in sentences for at in range(len(ids))]
    for index in range(len(blocks)):
        block = blocks[index]
        assert block.tokens.tolist() == joined[index].tokens.tolist()
        begins = firsts[index * length : index * length + len(block.tokens)]
        assert block.targets.tolist() == [not begin for begin in begins]
        expected, position = [], -1
        for begin in begins:
            position = 0 if begin else position + 1
            expected.append(position)
        assert block.positions.tolist() == expected


def test_a_batch_of_separate_documents_has_positions_and_no_mask():
    blocks = pack(concatenate([[1, 2, 3], [4, 5], [6, 7]]), 5, "apart")
    batch = collate([blocks[0], TrainingSequence(np.array([8, 9], dtype=np.int32)), blocks[1]])
    assert set(batch) == {"input_ids", "position_ids", "labels"}
    # Padding is a document of its own at every place.
    assert batch["position_ids"].tolist() == [[0, 1, 2, 0, 1], [0, 1, 0, 0, 0], [0, 1, 0, 0, 0]]
    assert batch["labels"][0].tolist() == [-100, 2, 3, -100, 5]
    assert batch["labels"][1:].tolist() == [[8, 9, -100, -100, -100], [-100, 7, -100, -100, -100]]


TELUGU = ("Translate this from English to Telugu:\nEnglish: Yes\nTelugu:", " అవును, ధన్యవాదాలు")
ENGLISH = ("Question: 2 + 2?\nAnswer:", " four\nor 4")


@pytest.mark.parametrize("sample", [TELUGU, ENGLISH])
@pytest.mark.parametrize("name", ["with_bos", "without_bos", "mistral_tokenizer"])
def test_prompts_are_read_as_in_generation_and_answers_learned(request, name, sample):
    tokenizer = request.getfixturevalue(name)
    [sequence] = encode_samples(tokenizer, [sample])
    ids, targets = sequence.tokens, sequence.targets
    texts = [tokenizer.decode(ids[mask], skip_special_tokens=True) for mask in (~targets, targets)]
    # SentencePiece drops the space before the first word.
    assert [text.strip() for text in texts] == [text.strip() for text in sample]
    prompt_ids = tokenizer(sample[0])["input_ids"]
    start = [] if prompt_ids[0] in tokenizer.all_special_ids else [tokenizer.eos_token_id]
    prompt = ids[~targets].tolist()
    assert prompt == start + prompt_ids == ids[: len(prompt)].tolist()
    assert ids[-1] == tokenizer.eos_token_id and targets[-1]
    assert (ids[1:] == tokenizer.eos_token_id).sum() == 1


def test_the_end_of_text_token_is_not_added_twice(without_bos):
    from copy import deepcopy

    from tokenizers import processors

    tokenizer = deepcopy(without_bos)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", tokenizer.eos_token_id)]
    )
    [sequence] = encode_samples(tokenizer, [ENGLISH])
    ids = sequence.tokens[1:].tolist()
    assert ids.count(tokenizer.eos_token_id) == 1 and sequence.targets[-1]


def test_a_token_that_spans_prompt_and_answer_belongs_to_the_answer(mistral_tokenizer):
    [sequence] = encode_samples(mistral_tokenizer, [("Complete: peo", "ple")])
    whole = mistral_tokenizer.convert_ids_to_tokens(sequence.tokens)
    assert whole[-2:] == ["▁people", "</s>"]
    assert sequence.targets.tolist() == [False] * (len(whole) - 2) + [True, True]


def test_samples_that_are_too_long_are_counted_and_left_out(without_bos):
    sequences = encode_samples(without_bos, [("a:", " b"), ("a:", " b" * 90), ("c:", " d")])
    length = len(sequences[0].tokens)
    text = SampleSequences.within(length, sequences, "parallel")
    assert (len(text), text.samples, text.too_long, text.name) == (2, 2, 1, "parallel")
    assert np.array_equal(text[1].tokens, sequences[2].tokens)
    with pytest.raises(UserError, match=r"'parallel'.*raise the phase's length"):
        SampleSequences.within(2, sequences, "parallel")


def test_no_token_of_another_document_is_a_target():
    blocks = pack(concatenate([[1, 2, 3], [4, 5, 6, 7]]), 7, "apart")
    batch = collate([blocks[0]])
    two_ahead = targets_ahead(batch["labels"], 2, batch["position_ids"])
    assert two_ahead.tolist() == [[3, -100, -100, 6, 7, -100, -100]]
