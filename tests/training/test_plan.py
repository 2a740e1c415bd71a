"""Phases read the texts that they name, in their shares, and a cell learns answers alone."""

import copy
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lexigraft.corpus.sample_file import write_samples
from lexigraft.errors import UserError
from lexigraft.inference.text_encoding import encode
from lexigraft.training import plan
from lexigraft.training.data import concatenate, encode_samples, pack
from lexigraft.training.plan import (
    cumulative_tokens,
    interleave,
    plan_phases,
    repeated_order,
    sample_counts,
    visiting_order,
)
from lexigraft.training.settings import read_strategy
from lexigraft.training.store import load_cell
from lexigraft.training.train import train_cell
from lexigraft.training.training_log import TrainingLog
from tests.training.interruption import EAGER, interrupted_at

PHASE = {"trainable": ["all"], "length": 32}
SHARED = {"epochs": 1, "batch_sequences": 4, "learning_rate": 1e-2, "gradient_checkpointing": False}
SAMPLES = [(f"{n} and {n} is:", f" {2 * n}") for n in range(9)] + [("Too long:", " a" * 40)]


@pytest.fixture
def job(training_setup, tmp_path):
    """Jobs with a corpus, and samples of the names `sums` and `more`."""

    def build(settings):
        job = training_setup().job({**SHARED, **settings})
        files = {}
        for name in ("sums", "more"):
            write_samples(tmp_path / name, SAMPLES)
            files[name] = str(tmp_path / name / "samples.jsonl")
        job["inputs"]["samples"] = files
        return job

    return build


def planned(job, tokenizer):
    return plan_phases(read_strategy(job["settings"]), tokenizer, job)


def monolingual(job, tokenizer):
    lines = (Path(job["inputs"]["corpus"]) / "train.txt").read_text("utf-8").split("\n")[:-1]
    return pack(concatenate(encode(tokenizer, lines)), 32)


def tokens_of(sequences):
    return [tuple(sequences[at].tokens.tolist()) for at in range(len(sequences))]


def test_a_phase_of_samples_passes_over_those_that_fit(job, without_bos):
    phases = [{**PHASE, "share": 0.5}, {**PHASE, "share": 0.5, "data": "sums"}]
    described = job({"phases": phases, "epochs": 4})
    first, second = planned(described, without_bos)
    fitting = [tuple(s.tokens.tolist()) for s in encode_samples(without_bos, SAMPLES[:-1])]
    # Half of four epochs is two passes, of whichever text the phase reads.
    assert len(first) == 2 * len(monolingual(described, without_bos))
    assert Counter(tokens_of(second)) == Counter(2 * fitting)
    assert sorted(tokens_of(second)[:9]) == sorted(fitting)
    assert sample_counts([first, second]) == {"sums": {"samples": 9, "too_long": 1}}


@pytest.mark.parametrize(
    ("share", "words", "packing"), [(0.05, 8, "joined"), (0.15, 3, "apart"), (0.5, 1, "joined")]
)
def test_shares_of_texts_are_shares_of_tokens(job, without_bos, share, words, packing):
    data = {"monolingual": 1 - share, "sums": share}
    described = job({"phases": [{**PHASE, "data": data}], "epochs": 4, "packing": packing})
    samples = [(f"{n} is:", f" {n}" * words) for n in range(40)]
    write_samples(Path(described["inputs"]["samples"]["sums"]).parent, samples)
    [phase] = planned(described, without_bos)
    of_samples = phase.order >= len(phase.source.datasets[0])
    tokens = phase.tokens()
    # To within the sequence that is nearest.
    assert abs(tokens[of_samples].sum() - share * tokens.sum()) <= 32
    half = len(phase) // 2
    assert abs(tokens[:half][of_samples[:half]].sum() - share * tokens[:half].sum()) <= 64
    # Every sample is whole, begins after a separator, and teaches its answer alone.
    expected = {
        (*sample.tokens.tolist(), *sample.targets.tolist())
        for sample in encode_samples(without_bos, samples)
    }
    found = set()
    for at in np.flatnonzero(of_samples):
        sequence = phase[at]
        begins = np.flatnonzero(sequence.tokens == without_bos.eos_token_id)[::2]
        for begin, end in zip(begins, [*begins[1:], len(sequence.tokens)], strict=True):
            part = slice(begin, end)
            found.add((*sequence.tokens[part].tolist(), *sequence.targets[part].tolist()))
            if packing == "apart":
                assert sequence.positions[part].tolist() == list(range(end - begin))
    assert found <= expected and (found == expected or share < 0.5)
    assert sample_counts([phase])["sums"] == {"samples": 40, "too_long": 0}


def test_the_order_of_sequences_follows_the_seed_of_the_cell(job, without_bos):
    described = job({"phases": [{**PHASE, "data": {"monolingual": 0.5, "sums": 0.5}}]})
    [one], [again] = planned(described, without_bos), planned(described, without_bos)
    assert tokens_of(one) == tokens_of(again)
    [other] = planned({**described, "seed": ["study", "training", "other"]}, without_bos)
    assert tokens_of(one) != tokens_of(other)


@pytest.mark.parametrize("wanted", [100, 20_000])
def test_tokens_determine_the_length_for_any_text(job, with_bos, without_bos, wanted):
    phases = [{**PHASE, "share": 0.25}, {**PHASE, "share": 0.75}]
    described = job({"phases": phases, "tokens": wanted})
    for tokenizer in (with_bos, without_bos):
        first, second = planned(described, tokenizer)
        assert sum(first.tokens()) == pytest.approx(wanted / 4, abs=2 * 32)
        assert sum(second.tokens()) == pytest.approx(wanted * 3 / 4, abs=2 * 32)
        # It goes through the whole text before it begins anew.
        order = np.concatenate([first.order, second.order])
        assert len(set(order[: len(first.source)])) == min(len(order), len(first.source))


def test_phases_with_their_own_amounts_continue_on_their_text(job, without_bos):
    phases = [
        {**PHASE, "tokens": 320},
        {**PHASE, "tokens": 640},
        {**PHASE, "data": "sums", "epochs": 2},
    ]
    described = job({"phases": phases})
    del described["settings"]["epochs"]
    first, second, third = planned(described, without_bos)
    assert (len(first), len(second)) == (10, 20)
    blocks = monolingual(described, without_bos)
    together = np.concatenate([first.order, second.order])
    assert together.tolist() == repeated_order(blocks, 30, described["seed"]).tolist()
    fitting = [tuple(s.tokens.tolist()) for s in encode_samples(without_bos, SAMPLES[:-1])]
    assert Counter(tokens_of(third)) == Counter(2 * fitting)


# ---- groups --------------------------------------------------------------------------------------


@pytest.fixture
def group(job, telugu, greek):
    """A job on a group of two languages, three quarters of whose tokens are Telugu."""

    def build(settings):
        described = job(settings)
        corpus = Path(described["inputs"]["corpus"])
        for name, lines in (("te", telugu[:30]), ("el", greek[:60])):
            (corpus / "members" / name).mkdir(parents=True)
            (corpus / "members" / name / "train.txt").write_text("\n".join(lines) + "\n", "utf-8")
        (corpus / "mixture.json").write_text(json.dumps({"te": 0.75, "el": 0.25}))
        (corpus / "train.txt").unlink()
        return described

    return build


def of_telugu(sequences):
    """Which sequences are of the first member."""
    return sequences.order < len(sequences.source.members["te"])


def test_a_group_of_single_texts_keeps_its_shares_of_tokens(group, without_bos):
    [phase] = planned(group({"phases": [PHASE], "packing": "single"}), without_bos)
    tokens, lengths = phase.tokens(), {len(tokens) for tokens in tokens_of(phase)}
    assert tokens[of_telugu(phase)].sum() == pytest.approx(0.75 * tokens.sum(), rel=0.05)
    assert len(lengths) > 3 and max(lengths) <= 32


@pytest.mark.parametrize("wanted", [3200, 64_000])
def test_a_group_trains_on_shares_of_tokens(group, without_bos, wanted):
    described = group({"phases": [{**PHASE, "tokens": wanted}]})
    del described["settings"]["epochs"]
    [phase] = planned(described, without_bos)
    assert len(phase) == wanted // 32
    assert of_telugu(phase).sum() == pytest.approx(0.75 * len(phase), abs=1)
    half = of_telugu(phase)[: len(phase) // 2]
    assert half.sum() == pytest.approx(0.75 * len(half), abs=1)
    # No block of a member comes more than once oftener than another of it.
    for own in (phase.order[of_telugu(phase)], phase.order[~of_telugu(phase)]):
        seen = Counter(own.tolist()).values()
        assert max(seen) - (min(seen) if len(own) > max(own) else 0) <= 2


def test_a_group_keeps_its_shares_when_mixed_with_another_text(group, without_bos):
    data = {"sums": 0.1, "monolingual": 0.9}
    [phase] = planned(group({"phases": [{**PHASE, "data": data}], "epochs": 1}), without_bos)
    samples, mixed = phase.source.datasets
    telugu = phase.order[phase.order >= len(samples)] - len(samples) < len(mixed.members["te"])
    blocks = 9 * samples.lengths().sum() / 32
    assert (len(telugu), telugu.sum()) == pytest.approx((blocks, 0.75 * blocks), abs=1)


def test_the_text_of_another_language_is_mixed_in_its_share_of_tokens(job, without_bos, greek):
    data = {"monolingual": 0.75, "greek": 0.25}
    described = job({"phases": [{**PHASE, "data": data}], "epochs": 2})
    folder = Path(described["inputs"]["corpus"]).with_name("el")
    folder.mkdir()
    (folder / "train.txt").write_text("\n".join(greek[:9]) + "\n", "utf-8")
    described["inputs"]["samples"]["greek"] = str(folder)
    [phase] = planned(described, without_bos)
    tokens, of_greek = phase.tokens(), phase.order >= len(phase.source.datasets[0])
    assert abs(tokens[of_greek].sum() - 0.25 * tokens.sum()) <= 32
    text = without_bos.decode(phase[int(np.flatnonzero(of_greek)[0])].tokens)
    assert any("α" <= letter <= "ω" for letter in text)


def test_tokens_per_language_grow_with_the_group(group, without_bos):
    [phase] = planned(group({"phases": [PHASE], "tokens_per_language": 1600}), without_bos)
    assert len(phase) == 2 * 1600 // 32


def test_a_phase_without_a_sequence_is_refused(job, without_bos):
    phases = [{**PHASE, "data": "sums", "share": 0.99}, {**PHASE, "data": "sums", "share": 0.01}]
    with pytest.raises(
        UserError, match="phase 1 gets none of the 9 sequences x 1 epochs of 'sums'"
    ):
        planned(job({"phases": phases}), without_bos)


def test_tokens_accumulate_over_steps_and_phases(job, without_bos):
    phases = [{**PHASE, "share": 0.5}, {**PHASE, "share": 0.5, "data": "sums"}]
    plan = planned(job({"phases": phases, "epochs": 2}), without_bos)
    before = sum(map(len, tokens_of(plan[0])))
    sizes = list(map(len, tokens_of(plan[1])))
    after = [before, *(before + sum(sizes[:end]) for end in (4, 8, 9))]
    assert cumulative_tokens(plan, 1, 4).tolist() == after


def test_a_cell_reads_the_planned_sequences(job, without_bos):
    mixture = {**PHASE, "share": 0.5, "data": {"monolingual": 0.7, "sums": 0.3}}
    described = job({"phases": [mixture, {**PHASE, "share": 0.5, "data": "more"}], "epochs": 2})
    plan = planned(described, without_bos)
    train_cell(described)
    folder = Path(described["outputs"]["folder"])
    last = TrainingLog(folder / "log.jsonl").lines("step")[-1]
    assert last["tokens"] == sum(len(tokens) for phase in plan for tokens in tokens_of(phase))
    assert set(json.loads((folder / "card.json").read_text())["samples"]) == {"sums", "more"}


@given(blocks=st.integers(1, 20), epochs=st.sampled_from([0.5, 1, 1.5, 2, 3]), cut=st.floats(0, 1))
def test_phases_share_the_passes_without_gap_or_overlap(blocks, epochs, cut):
    names = ["study", "training", "cell"]
    whole = visiting_order(range(blocks), epochs, (0, 1), names)
    parts = [visiting_order(range(blocks), epochs, one, names) for one in ((0, cut), (cut, 1))]
    assert np.concatenate(parts).tolist() == whole.tolist()
    assert len(whole) == max(1, round(blocks * epochs))


@given(sequences=st.integers(1, 9), count=st.integers(1, 40))
def test_a_short_text_is_repeated_pass_by_pass_and_a_long_one_cut(sequences, count):
    numbers = repeated_order(range(sequences), count, ["seed"])
    assert len(numbers) == count
    for begin in range(0, count - sequences + 1, sequences):
        assert sorted(numbers[begin : begin + sequences]) == list(range(sequences))
    # No number comes more than once oftener than another.
    seen = Counter(numbers.tolist())
    assert max(seen.values()) - min(seen.get(n, 0) for n in range(sequences)) <= 1


@given(st.lists(st.integers(1, 30), min_size=1, max_size=4))
def test_interleaved_texts_keep_their_order_and_are_spread_evenly(sizes):
    orders = [1000 * text + np.arange(size) for text, size in enumerate(sizes)]
    order = interleave(orders)
    for text, own in enumerate(orders):
        mask = order // 1000 == text
        assert order[mask].tolist() == own.tolist()
        share = len(own) / len(order)
        # A text is half a sequence early or late at most, and so is each of the others.
        due = share * np.arange(1, len(order) + 1)
        assert np.abs(np.cumsum(mask) - due).max() <= 0.5 + share * len(sizes) / 2 + 1e-9


def test_samples_without_a_token_between_them_are_not_joined(job, without_bos, monkeypatch):
    monkeypatch.setattr(plan, "document_start", lambda tokenizer: "")
    bare = copy.deepcopy(without_bos)
    bare.eos_token = None
    data = {"monolingual": 0.5, "sums": 0.5}
    for packing, joins in (("joined", False), ("apart", True)):
        described = job({"phases": [{**PHASE, "data": data}], "packing": packing})
        [phase] = planned(described, bare)
        samples = phase.source.datasets[1]
        assert (len(samples) < samples.samples) == joins


def mean_loss(model, sequences):
    """Nats per token of the answers of samples, by a plain pass over each."""
    nats = []
    for sequence in sequences:
        with torch.no_grad():
            chances = (
                model(torch.tensor(sequence.tokens[None].astype(int))).logits[0].log_softmax(-1)
            )
        learned = np.flatnonzero(sequence.targets)
        nats += [-float(chances[at - 1, sequence.tokens[at]]) for at in learned]
    return sum(nats) / len(nats)


def test_a_cell_s_loss_is_the_mean_over_the_tokens_of_its_answers(job, without_bos, tiny_llama):
    described = job({"phases": [{**PHASE, "data": "sums"}], "batch_sequences": 3})
    [phase] = planned(described, without_bos)
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(described["inputs"]["source"])
    train_cell(described)
    folder = Path(described["outputs"]["folder"])
    first = TrainingLog(folder / "log.jsonl").lines("step")[0]
    assert first["loss"] == pytest.approx(
        mean_loss(model, [phase[at] for at in range(3)]), rel=1e-4
    )
    card = json.loads((folder / "card.json").read_text())
    assert card["samples"] == {"sums": {"samples": 9, "too_long": 1}}


@pytest.mark.parametrize("interrupted_before", [None, 8, 15])
def test_a_phase_ends_with_its_best_parameters_on_the_validation_set(
    job, without_bos, interrupted_before
):
    phase = {**PHASE, "data": "sums", "validation": "more", "learning_rate": 0.03}
    described = job({"phases": [phase], "epochs": 8, "batch_sequences": 5})
    # Answers that resemble those of the training at first, and no longer when these are known.
    validation = [(prompt, f"{answer} or less") for prompt, answer in SAMPLES[:5]]
    write_samples(Path(described["inputs"]["samples"]["more"]).parent, validation)
    if interrupted_before:
        with interrupted_at(interrupted_before):
            train_cell(described, EAGER)
    train_cell(described, EAGER)
    folder = Path(described["outputs"]["folder"])
    log = TrainingLog(folder / "log.jsonl")
    losses = [line["loss"] for line in log.lines("validation")]
    steps = len(log.lines("step"))
    assert [line["step"] for line in log.lines("validation")] == [
        round(steps * n / 10) for n in range(1, 11)
    ]
    assert 0 < losses.index(min(losses)) < 9
    model, _ = load_cell(folder)
    stored = mean_loss(model, encode_samples(without_bos, validation))
    assert stored == pytest.approx(min(losses), rel=1e-4)
    assert stored < losses[-1] - 0.01


def test_each_pass_over_a_text_has_its_own_order():
    first, second = repeated_order(range(50), 100, ["seed"]).reshape(2, 50).tolist()
    assert first != second
    assert (
        first
        == repeated_order(range(50), 50, ["seed"]).tolist()
        != repeated_order(range(50), 50, ["other"]).tolist()
    )
