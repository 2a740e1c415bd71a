from types import SimpleNamespace

import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.inference import generation
from lexigraft.inference.generation import (
    GeneratedText,
    continue_greedily,
    end_tokens,
    generate,
)
from lexigraft.inference.text_encoding import encode

PROMPTS = {
    "long": "one two three four five six seven =",
    "short": "yes =",
    "middle": "good morning =",
    "tiny": "=",
    "greek": "καλημέρα κόσμε =",
}


@pytest.fixture
def model(varied_llama):
    return varied_llama


@pytest.fixture
def run(model, byte_tokenizer):
    """Generate for PROMPTS with the tiny model; keywords override."""

    def run(**options):
        given = {"max_new_tokens": 12, "batch_size": 2, **options}
        prompts = given.pop("prompts", PROMPTS)
        return generate(model, byte_tokenizer(), prompts, **given)

    return run


def naive_greedy(model, ids: list[int], steps: int) -> list[int]:
    """One forward pass over the whole sequence per token, without cache, batch or padding."""
    ids = list(ids)
    for _ in range(steps):
        with torch.no_grad():
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[-steps:]


def test_every_row_of_a_padded_batch_is_the_naive_greedy_continuation(model, byte_tokenizer):
    encoded = list(encode(byte_tokenizer(), list(PROMPTS.values())))
    rows = continue_greedily(model, encoded, padding=0, stop_tokens=[], max_new_tokens=10)
    assert rows.tolist() == [naive_greedy(model, ids, 10) for ids in encoded]


def test_texts_do_not_depend_on_the_batch_size(run):
    alone = run(batch_size=1)
    assert run(batch_size=3) == alone
    assert any(output.text for output in alone.values())


@pytest.mark.fault(
    "machine",
    "GPU memory runs out while texts are generated or scored",
    "batches are halved; texts and scores are the same",
)
def test_batches_that_do_not_fit_into_memory_are_halved_and_the_texts_are_the_same(
    model, run, monkeypatch, caplog
):
    whole, inner, sizes = run(), model.generate, []

    def generate(ids, **options):
        sizes.append(len(ids))
        if ids.numel() > 40:  # the longest prompt has 36 tokens
            raise torch.OutOfMemoryError
        return inner(ids, **options)

    monkeypatch.setattr(model, "generate", generate)
    assert run(batch_size=5) == whole
    assert sizes[:3] == [5, 2, 1] and sum(sizes[2:]) == len(PROMPTS)
    assert [record.message[-10:] for record in caplog.records] == ["120 tokens", " 48 tokens"]
    with pytest.raises(torch.OutOfMemoryError):
        run(prompts={"big": "x" * 41})


def test_sampling_and_penalties_of_the_model_are_ignored_and_restored(model, run):
    plain = run()
    model.generation_config.update(do_sample=True, temperature=5.0, repetition_penalty=3.0)
    assert run() == plain
    assert model.generation_config.repetition_penalty == 3.0


def scripted(model, monkeypatch, rows: list[list[int]]):
    """Let `model.generate` return the prompt followed by the given rows."""

    def generate(ids, **_):
        return torch.cat([ids, torch.tensor(rows)], dim=1)

    monkeypatch.setattr(model, "generate", generate)


def test_a_text_ends_exactly_before_a_stop_string_even_within_tokens(
    model, byte_tokenizer, monkeypatch
):
    tokenizer = byte_tokenizer((".", "Ċ"), (".Ċ", "a"), ("o", "Ċ"), ("Q", ":"))
    names = ("a", "b", ".Ċa", "n", "oĊ", "Q:")
    a, b, end, n, o, q = (tokenizer.convert_tokens_to_ids(name) for name in names)
    for stop, row, expected in (
        (["\n"], [a, b, end, b, b], GeneratedText("ab.", [a, b, end], 3, finished=True)),
        (["\nQ:", "\n\n"], [n, o, q, a, a], GeneratedText("no", [n, o], 3, finished=True)),
    ):
        scripted(model, monkeypatch, [row])
        options = {"max_new_tokens": 5, "batch_size": 1, "stop": stop}
        found = generate(model, tokenizer, {"x": "p"}, **options)
        assert found == {"x": expected}


def test_the_output_contains_neither_line_feed_nor_end_token(model, byte_tokenizer, monkeypatch):
    tokenizer = byte_tokenizer()
    a, newline = (tokenizer.convert_tokens_to_ids(token) for token in ("a", "Ċ"))
    rows = [[a, newline, a, a], [a, a, 0, a], [newline, a, a, a], [a, a, a, a]]
    scripted(model, monkeypatch, rows)
    outputs = generate(
        model,
        tokenizer,
        {"w": "p", "x": "p", "y": "p", "z": "p"},
        max_new_tokens=4,
        batch_size=4,
    )
    assert list(outputs.values()) == [
        GeneratedText("a", [a], 2, finished=True),
        GeneratedText("aa", [a, a], 3, finished=True),
        GeneratedText("", [], 1, finished=True),
        GeneratedText("aaaa", [a, a, a, a], 4, finished=False),
    ]


def test_each_row_of_a_batch_ends_at_its_own_stop_string(run):
    # What the model writes where nothing but the limit ends a text.
    outputs = run(stop=[], max_new_tokens=40)
    free = {name: output.text for name, output in outputs.items()}
    pairs = {text[at : at + 2] for text in free.values() for at in range(4, len(text) - 1)}
    stop = sorted(pair for pair in pairs if pair.isascii() and pair.isprintable())[:3]
    outputs = run(stop=stop, max_new_tokens=40, batch_size=3)
    ended = 0
    for name, text in free.items():
        places = [text.find(one) for one in stop if one in text]
        expected = text[: min(places)].strip() if places else text
        ended += bool(places)
        assert outputs[name].text == expected
    assert ended


@pytest.mark.bad_input(
    "text",
    "a prompt longer than the model's context",
    "a one-line error message before any text is generated",
)
def test_a_prompt_that_exceeds_the_context_is_refused_before_generation(run):
    with pytest.raises(UserError, match=r"a prompt of 601 tokens exceed.*context of 512"):
        run(prompts={**PROMPTS, "big": "x" * 600})


BEAMED = {"a": "one two", "b": "three", "c": "four five six seven", "d": "ναι"}


def test_with_a_beam_for_every_token_the_most_likely_pair_is_found(varied_llama, byte_tokenizer):
    tokens = len(byte_tokenizer())
    prompt = byte_tokenizer()("once")["input_ids"]
    with torch.inference_mode():
        first = varied_llama(torch.tensor([prompt])).logits[0, -1].log_softmax(0)
        every = torch.tensor([[*prompt, token] for token in range(tokens)])
        second = varied_llama(every).logits[:, -1].log_softmax(-1)
    best = int((first[:, None] + second).argmax())
    [pair] = continue_greedily(
        varied_llama, [prompt], padding=0, stop_tokens=[], max_new_tokens=2, beams=tokens
    ).tolist()
    assert pair == [best // tokens, best % tokens]


def test_vllm_with_beams_is_refused(byte_tokenizer, monkeypatch):
    class Engine:
        config = SimpleNamespace(get_text_config=lambda: None)

    monkeypatch.setattr(generation, "VllmModel", Engine)
    with pytest.raises(UserError, match="set beams to 1"):
        generate(
            Engine(), byte_tokenizer(), BEAMED, max_new_tokens=2, batch_size=1, beams=2,
        )  # fmt: skip


def test_the_padding_token_does_not_change_texts(model, byte_tokenizer):
    encoded = list(encode(byte_tokenizer(), list(PROMPTS.values())))
    rows = [
        continue_greedily(model, encoded, padding=padding, stop_tokens=[], max_new_tokens=10)
        for padding in (0, 77)
    ]
    assert torch.equal(*rows)


def test_all_end_tokens_of_tokenizer_and_model_end_a_text(model, byte_tokenizer):
    model.generation_config.eos_token_id = [5, 9]
    assert end_tokens(model, byte_tokenizer()) == {0, 5, 9}


def test_texts_of_beam_search_do_not_depend_on_the_batch_size(varied_llama, byte_tokenizer):
    found = [
        generate(
            varied_llama, byte_tokenizer(), BEAMED, max_new_tokens=6, batch_size=size, beams=3,
        )
        for size in (1, 3, 4)
    ]  # fmt: skip
    assert found[0] == found[1] == found[2]
    assert len({output.text for output in found[0].values()}) > 1
