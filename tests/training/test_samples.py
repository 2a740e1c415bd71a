"""Of a prompt and its answer, the loss counts the answer and where it ends."""

import numpy as np
import pytest

from lexigraft.errors import UserError
from lexigraft.training.samples import Samples, encode_samples

TELUGU = ("Translate this from English to Telugu:\nEnglish: Yes\nTelugu:", " అవును, ధన్యవాదాలు")
ENGLISH = ("Question: 2 + 2?\nAnswer:", " four\nor 4")


def parts(tokenizer, sequence):
    """The texts of the tokens that are given, and of those that are learned."""
    ids, targets = sequence.tokens, sequence.targets
    return [tokenizer.decode(ids[mask], skip_special_tokens=True) for mask in (~targets, targets)]


@pytest.mark.parametrize("sample", [TELUGU, ENGLISH])
@pytest.mark.parametrize("name", ["with_bos", "without_bos", "smollm2_tokenizer"])
def test_the_answer_is_learned_and_the_prompt_is_not(request, name, sample):
    tokenizer = request.getfixturevalue(name)
    [sequence] = encode_samples(tokenizer, [sample])
    assert parts(tokenizer, sequence) == [*sample]


@pytest.mark.parametrize("sample", [TELUGU, ENGLISH])
def test_so_it_is_with_sentencepiece_and_its_byte_tokens(mistral_tokenizer, sample):
    [sequence] = encode_samples(mistral_tokenizer, [sample])
    # Decoding drops the space before the first word.
    assert [text.strip() for text in parts(mistral_tokenizer, sequence)] == [
        text.strip() for text in sample
    ]


@pytest.mark.parametrize("name", ["with_bos", "without_bos", "mistral_tokenizer"])
def test_the_model_sees_the_prompt_as_it_will_when_it_is_asked(request, name):
    tokenizer = request.getfixturevalue(name)
    [sequence] = encode_samples(tokenizer, [TELUGU])
    asked = tokenizer(TELUGU[0])["input_ids"]
    start = [] if asked[0] in tokenizer.all_special_ids else [tokenizer.eos_token_id]
    given = sequence.tokens[~sequence.targets].tolist()
    assert given == start + asked == sequence.tokens[: len(given)].tolist()


@pytest.mark.parametrize("name", ["with_bos", "without_bos", "mistral_tokenizer"])
def test_a_sample_ends_in_an_end_of_text_that_is_learned(request, name):
    tokenizer = request.getfixturevalue(name)
    [sequence] = encode_samples(tokenizer, [ENGLISH])
    assert sequence.tokens[-1] == tokenizer.eos_token_id and sequence.targets[-1]
    assert (sequence.tokens[1:] == tokenizer.eos_token_id).sum() == 1


def test_an_end_of_text_that_the_tokenizer_adds_is_not_doubled(without_bos):
    from copy import deepcopy

    from tokenizers import processors

    tokenizer = deepcopy(without_bos)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", tokenizer.eos_token_id)]
    )
    [sequence] = encode_samples(tokenizer, [ENGLISH])
    ids = sequence.tokens[1:].tolist()
    assert ids.count(tokenizer.eos_token_id) == 1 and sequence.targets[-1]


def test_a_token_of_prompt_and_answer_is_the_answer_s(mistral_tokenizer):
    [sequence] = encode_samples(mistral_tokenizer, [("Complete: peo", "ple")])
    whole = mistral_tokenizer.convert_ids_to_tokens(sequence.tokens)
    assert whole[-2:] == ["▁people", "</s>"]
    assert sequence.targets.tolist() == [False] * (len(whole) - 2) + [True, True]


def test_samples_beyond_a_batch_are_encoded_like_the_first(without_bos, monkeypatch):
    monkeypatch.setattr("lexigraft.training.samples.BATCH", 2)
    samples = [(f"{n}:", f" {n * n}") for n in range(5)]
    together = encode_samples(without_bos, samples)
    for sample, sequence in zip(samples, together, strict=True):
        [alone] = encode_samples(without_bos, [sample])
        assert sequence.tokens.tolist() == alone.tokens.tolist()


def test_what_is_too_long_is_left_out_and_counted(without_bos):
    sequences = encode_samples(without_bos, [("a:", " b"), ("a:", " b" * 90), ("c:", " d")])
    length = len(sequences[0].tokens)
    text = Samples.within(length, sequences, "parallel")
    assert (len(text), text.too_long, text.name) == (2, 1, "parallel")
    assert np.array_equal(text[1].tokens, sequences[2].tokens)


def test_where_all_are_too_long_the_length_is_to_be_raised(without_bos):
    sequences = encode_samples(without_bos, [("a:", " b" * 20)])
    with pytest.raises(UserError, match=r"'parallel'.*raise the phase's length"):
        Samples.within(8, sequences, "parallel")
