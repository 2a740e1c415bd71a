"""A teacher with known answers, so that every sample can be computed by hand."""

import json
import runpy
import sys
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from lexigraft.corpus.sample_file import SAMPLES, read_samples
from lexigraft.errors import UserError
from lexigraft.training.teacher_answers import answer_samples

# What the teacher says after each character, whatever came before: "Ġ" is a space, "Ċ" a line feed.
AFTER = {
    ":": "Ġ", "Ġ": "y", "y": "e", "e": "s", "s": "Ċ", "?": "n", "n": "o", "o": "</s>",
    ";": ";", "=": "Ċ", "Ċ": "y",
}  # fmt: skip


@pytest.fixture(scope="module")
def teacher(tmp_path_factory, without_bos):
    """A model whose next token hangs on the last one alone, as AFTER says."""
    folder = tmp_path_factory.mktemp("source") / "large"
    rows = 304
    config = LlamaConfig(
        vocab_size=rows, hidden_size=rows, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=32, tie_word_embeddings=False,
        bos_token_id=1, eos_token_id=2, pad_token_id=2,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.model.layers.named_parameters():
            if "norm" not in name:
                parameter.zero_()
        model.get_input_embeddings().weight.copy_(torch.eye(rows))
        model.lm_head.weight.zero_()
        for one, other in AFTER.items():
            here, there = without_bos.convert_tokens_to_ids([one, other])
            model.lm_head.weight[there, here] = 1
    model.save_pretrained(folder)
    without_bos.save_pretrained(folder)
    (folder / "source.json").write_text(json.dumps({"kind": "folder", "path": "."}))
    (folder / "card.json").write_text("{}")
    return folder


@pytest.fixture
def answer(tmp_path, teacher):
    """`answer(*samples)`: the samples with the teacher's answers, and the facts."""

    def run(*samples, max_new_tokens=8, **options):
        prompts = tmp_path / "prompts.jsonl"
        rows = [{"prompt": prompt, "answer": answer} for prompt, answer in samples]
        prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
        folder = tmp_path / "out"
        folder.mkdir(exist_ok=True)
        files, facts = answer_samples(
            prompts, teacher, folder, max_new_tokens=max_new_tokens, batch_size=2, **options
        )
        assert files == [SAMPLES]
        assert [path.name for path in folder.iterdir()] == [SAMPLES]
        return read_samples(folder / SAMPLES), facts

    return run


def test_complete_answers_have_their_separator_and_others_are_counted(answer):
    samples, facts = answer(
        ("1:", " a"), ("1:", " b"), ("2?", "b"), ("3:", "  c"), ("Q=", "\nA"), ("1=", " a"),
        ("2;", " b"), ("z" * 31 + ":", " a"),
    )  # fmt: skip
    assert samples == [("1:", " yes"), ("2?", "no"), ("3:", "  yes"), ("Q=", "\nyes")]
    assert facts == {"prompts": 7, "too_long": 1, "empty": 1, "unfinished": 1}


def test_a_teacher_without_a_complete_answer_is_named(answer):
    with pytest.raises(UserError, match="large gave no complete answer to any of 1 prompts"):
        answer(("2;", " b"))


@pytest.mark.fault(
    "kill",
    "the generation of a teacher's answers is interrupted",
    "it is repeated and produces the same samples",
)
def test_an_interrupted_run_is_repeated_and_has_the_same_samples(answer, monkeypatch):
    samples = [(f"{'z' * n}{end}", " a") for n in range(6) for end in ":?"]
    expected = answer(*samples)
    inner, calls = LlamaForCausalLM.generate, []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return inner(*arguments, **options)

    monkeypatch.setattr(LlamaForCausalLM, "generate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        answer(*samples)
    assert answer(*samples) == expected


def test_the_script_writes_samples_and_a_card(tmp_path, teacher, monkeypatch):
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "1:", "answer": " a"}\n')
    folder = tmp_path / "samples"
    job = {
        "rule": "answer_samples",
        "settings": {"max_new_tokens": 8, "batch_size": 2},
        "inputs": {"prompts": str(tmp_path / "prompts.jsonl"), "teacher": str(teacher)},
        "outputs": {"folder": str(folder)},
        "versions": {"stage": 1},
    }
    script = Path(__file__).resolve().parents[2] / "scripts" / "answer_samples.py"
    monkeypatch.setattr(sys, "argv", [str(script), json.dumps(job)])
    runpy.run_path(str(script), run_name="__main__")
    assert read_samples(folder / SAMPLES) == [("1:", " yes")]
    card = json.loads((folder / "card.json").read_text())
    assert card["prompts"] == 1 and list(card["files"]) == [SAMPLES]
