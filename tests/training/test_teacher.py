"""The chunks of two tokenizations: by hand, and against all spans of a real text."""

import copy
import json
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lexigraft.inference.chunked_logits import IGNORED
from lexigraft.inference.text_encoding import encode
from lexigraft.training.data import TrainingSequence, concatenate, pack
from lexigraft.training.teacher import TokenAligner
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.token_bytes import special_ids, token_bytes

NONE = IGNORED


def aligned(own, other, tokens, most=10_000, **parts):
    """The teacher's tokens and chunks, and the own chunks, as lists."""
    sequence = TrainingSequence(np.array(tokens, dtype=np.int32), **parts)
    found = TokenAligner(own, other, most).align(sequence)
    return found.tokens.tolist(), found.chunks.tolist(), found.own_chunks.tolist()


def ids(tokenizer, text):
    """The end token, and then a text."""
    return next(encode(tokenizer, [text]))


def test_a_character_may_be_one_chunk_or_its_bytes(byte_tokenizer):
    bytewise, whole = byte_tokenizer(), byte_tokenizer(("Ã", "©"))  # the two bytes of é
    assert aligned(bytewise, whole, ids(bytewise, "éa"))[1:] == ([NONE, 2, 3], [NONE, 2, 2, 3])
    assert aligned(whole, bytewise, ids(whole, "éa"))[1:] == ([NONE, 1, 1, 2], [NONE, 1, 2])
    assert aligned(bytewise, bytewise, ids(bytewise, "é"))[1:] == ([NONE, 1, 2], [NONE, 1, 2])


def test_a_character_split_by_sequences_is_in_no_chunk(byte_tokenizer):
    own = byte_tokenizer(("©", "a"))
    _, first, a, b, c, _ = ids(own, "éabcé")[:6]
    # The second byte of é with the letter after it; at the end, the first byte of é.
    tokens, theirs, ours = aligned(own, own, [a, b, c, first])
    assert tokens == ids(own, "bc")[:1] + ids(byte_tokenizer(), "abc")[1:]
    assert ours == [NONE, 1, 2, NONE]
    assert theirs == [NONE, NONE, 1, 2]


def test_the_beginning_of_a_text_is_predicted_by_no_model(byte_tokenizer, with_bos):
    own = byte_tokenizer()
    tokens, theirs, ours = aligned(own, with_bos, ids(own, "a") + ids(own, "b"))
    assert tokens == ids(with_bos, "a") + ids(with_bos, "b")
    assert ours == theirs == [NONE, 1, NONE, 3]


def test_text_after_a_difference_is_in_no_chunk_up_to_the_next_special_token(byte_tokenizer):
    from tokenizers import normalizers

    own, other = byte_tokenizer(), byte_tokenizer(("c", "d"))
    other.backend_tokenizer.normalizer = normalizers.Lowercase()
    tokens, theirs, ours = aligned(own, other, ids(own, "a/bCd") + ids(own, "e"))
    assert tokens == ids(other, "a/bcd") + ids(other, "e")
    assert ours == [NONE, 1, 2, 3, NONE, NONE, 6, 7]
    assert theirs == [NONE, 1, 2, 3, NONE, 6, 7]


def test_a_special_token_without_a_counterpart_separates_texts(byte_tokenizer):
    own = copy.deepcopy(byte_tokenizer())
    own.add_special_tokens({"additional_special_tokens": ["<sep>"]})
    other = byte_tokenizer(("a", "b"))
    sep = own.convert_tokens_to_ids("<sep>")
    end, a, b = ids(own, "ab")
    tokens, _, ours = aligned(own, other, [end, a, sep, b])
    assert tokens == [end, a, b] and ours == [NONE, 1, NONE, 3]


def test_separate_documents_have_their_own_positions(byte_tokenizer):
    own, other = byte_tokenizer(("a", "b")), byte_tokenizer()
    first, second = ids(own, "ab"), ids(own, "abc")
    sequence = pack(concatenate([first, second]), 10, "apart")[0]
    found = TokenAligner(own, other, 10).align(sequence)
    assert found.positions.tolist() == [0, 1, 2, 0, 1, 2, 3]
    assert found.own_chunks.tolist() == [NONE, 1, NONE, 3, 4]
    assert found.chunks.tolist() == [NONE, 1, 1, NONE, 3, 3, 4]


def test_text_beyond_the_teacher_s_length_is_in_no_chunk(byte_tokenizer):
    own, other = byte_tokenizer(("b", "c")), byte_tokenizer()
    tokens, theirs, ours = aligned(own, other, ids(own, "abcd"), most=3)
    assert tokens == ids(other, "ab")
    assert (theirs, ours) == ([NONE, 1, NONE], [NONE, 1, NONE, NONE])


@pytest.fixture(scope="module")
def pieces(english, telugu):
    """Byte-fallback BPE as SentencePiece has it: a space before each text, 400 tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    backend = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(
        vocab_size=400, show_progress=False, limit_alphabet=60,
        special_tokens=["<unk>", "<s>", "</s>", *fallback],
    )  # fmt: skip
    backend.train_from_iterator([*english[:50], *telugu[:50]], trainer)
    state = json.loads(backend.to_str())
    # The bytes are ordinary tokens.
    state["added_tokens"] = state["added_tokens"][:3]
    backend = Tokenizer.from_str(json.dumps(state))
    backend.decoder = decoders.ByteFallback()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


@pytest.fixture(scope="module")
def family(byte_tokenizer, with_bos, without_bos, telugu, pieces, special_tokenizer):
    """Tokenizers that differ in their tokens, in how texts begin and in how spaces do."""
    return {
        "bytes": byte_tokenizer(),
        "bos": with_bos,
        "eos": without_bos,
        "expanded": expand_tokenizer(without_bos, telugu[:50], new_tokens=60),
        "pieces": pieces,
        "none": special_tokenizer(),
    }


def chunks_by_hand(own, other, tokens):
    """Chunks as (own tokens, other tokens), by comparing all spans of two token lists as bytes."""
    mine, theirs = (
        [bytes_of[token] for token in ids]
        for bytes_of, ids in zip((token_bytes(own), token_bytes(other)), tokens, strict=True)
    )
    ends = [list(accumulate(map(len, pieces), initial=0)) for pieces in (mine, theirs)]
    found, (i, j) = [], (0, 0)
    for k in range(1, len(mine) + 1):
        for m in range(1, len(theirs) + 1):
            if ends[0][k] == ends[1][m] and k > i and m > j:
                assert b"".join(mine[i:k]) == b"".join(theirs[j:m])
                found.append((range(i, k), range(j, m)))
                i, j = k, m
    return found


@settings(max_examples=60)
@given(st.data())
def test_chunks_of_whole_texts_are_the_shortest_spans_with_the_same_bytes(family, telugu, data):
    own, other = (family[data.draw(st.sampled_from(["bytes", "eos", "expanded"]))] for _ in "ab")
    text = data.draw(st.sampled_from(telugu) | st.text(min_size=1, max_size=20))
    tokens = [ids(own, text), ids(other, text)]
    read, theirs, ours = aligned(own, other, tokens[0])
    assert read == tokens[1]
    expected = [[NONE] * len(one) for one in tokens]
    for mine, others in chunks_by_hand(own, other, [one[1:] for one in tokens]):
        for row, places in zip(expected, (mine, others), strict=True):
            for place in places:
                row[place + 1] = mine[-1] + 1
    assert [ours, theirs] == expected


@settings(max_examples=60)
@given(st.data())
def test_a_chunk_of_a_cut_sequence_is_the_same_bytes_in_both(family, telugu, english, data):
    own, other = (family[data.draw(st.sampled_from(sorted(family)))] for _ in "ab")
    texts = data.draw(st.lists(st.sampled_from([*telugu[:20], *english[:20]]), min_size=1,
                               max_size=3))  # fmt: skip
    tokens = np.concatenate([ids(own, text) for text in texts])
    begin = data.draw(st.integers(0, len(tokens) - 1))
    tokens = tokens[begin : begin + data.draw(st.integers(1, 80))]
    read, theirs, ours = aligned(own, other, tokens)
    mine_of, theirs_of = token_bytes(own), token_bytes(other)
    special = special_ids(own)
    numbers = [number for number in dict.fromkeys(ours) if number != NONE]
    assert numbers == [number for number in dict.fromkeys(theirs) if number != NONE]
    assert numbers == sorted(numbers) and {ours[0], *theirs[:1]} == {NONE}
    for number in numbers:
        mine = [token for token, chunk in zip(tokens, ours, strict=True) if chunk == number]
        others = [token for token, chunk in zip(read, theirs, strict=True) if chunk == number]
        assert tokens[number] == mine[-1]
        if mine[0] not in special:
            both = [b"".join(of[token] for token in group)
                    for of, group in ((mine_of, mine), (theirs_of, others))]  # fmt: skip
            assert both[0].lstrip(b" ") == both[1].lstrip(b" ")
