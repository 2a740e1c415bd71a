"""A phase that ends when its loss falls no longer, and what becomes of its steps."""

import math

import numpy as np
import pytest
from safetensors.torch import load_file

from lexigraft.corpus.lines import corpus_sentences
from lexigraft.errors import UserError
from lexigraft.inference.likelihood import score_texts
from lexigraft.training.settings import read_strategy
from lexigraft.training.store import load_cell
from lexigraft.training.train import train_cell
from lexigraft.training.training_log import TrainingLog
from tests.training.interruption import EAGER, interrupted_at
from tests.training.trained import folder_of, same_bits

ROWS = {"trainable": ["embeddings", "head"], "length": 32}
LORA = {"trainable": ["embeddings", "head", "lora"], "length": 32}
AT_ONCE = {"window": 2, "improvement": 0.99}  # no loss falls so fast: after four steps
SHARED = {
    "batch_sequences": 4,
    "learning_rate": 1e-2,
    "schedule": "constant",
    "warmup": 0,
    "gradient_checkpointing": False,
}
HALVES = [{**ROWS, "share": 0.5, "converged": AT_ONCE}, {**LORA, "share": 0.5}]
CONVERGED = {**SHARED, "epochs": 2, "phases": HALVES}


def steps_of(folder):
    lines = TrainingLog(folder / "log.jsonl").lines("step")
    return np.bincount([line["phase"] for line in lines]).tolist()


def trained(folder):
    files = folder.rglob("*.safetensors")
    return {(file.relative_to(folder), n): t for file in files for n, t in load_file(file).items()}


@pytest.fixture
def run(training_setup):
    """`run(settings, before=step)`: the folder of a cell that was interrupted at some step."""
    setup = training_setup()

    def train(settings, before=None, **axes):
        job = setup.job(settings, **axes) | {"seed": ["the same for all"]}
        if before is not None:
            with interrupted_at(before):
                train_cell(job, EAGER)
        train_cell(job)
        return folder_of(job)

    return train


def test_the_phase_after_a_converged_one_takes_its_remaining_steps(run):
    folder = run(CONVERGED)
    assert steps_of(folder) == [4, 24]  # of 14 and 14
    sequences = math.ceil(TrainingLog(folder / "log.jsonl").lines("step")[-1]["tokens"] / 2 / 32)
    epochs = 4 * SHARED["batch_sequences"] / sequences
    phases = [{**ROWS, "epochs": epochs}, {**LORA, "epochs": 2 - epochs}]
    same = run({**SHARED, "phases": phases}, strategy="amounts")
    assert steps_of(same) == [4, 24]
    assert same_bits(trained(folder), trained(same))


def test_a_phase_whose_loss_still_falls_takes_all_its_steps(run):
    slow = {**HALVES[0], "converged": {"window": 2, "improvement": 1e-6}}
    folder = run({**CONVERGED, "phases": [slow, HALVES[1]]})
    losses = [line["loss"] for line in TrainingLog(folder / "log.jsonl").lines("step")]
    first, second = steps_of(folder)
    means = np.array(losses[: first // 2 * 2]).reshape(-1, 2).mean(1)
    assert (np.diff(means) < 0).all()
    assert [first, second] == [13, 15]  # half of the sequences are 13 steps and a part of one


@pytest.mark.fault(
    "kill",
    "training is interrupted at or after the step at which a phase converges",
    "the phase ends at the same step, and the cell is bit-identical",
)
@pytest.mark.parametrize("before", [4, 5])
def test_an_interrupted_run_converges_at_the_same_step(run, before):
    settings = {**CONVERGED, "epochs": 1, "checkpoints": 3}
    whole = run(settings)
    again = run(settings, before=before, strategy="again")
    assert steps_of(again) == steps_of(whole)
    assert same_bits(trained(again), trained(whole))
    curves = [TrainingLog(folder / "log.jsonl").lines("heldout") for folder in (whole, again)]
    assert curves[0] == curves[1]


def test_checkpoints_around_convergence_score_like_the_model_at_their_step(
    training_setup,
):
    """Where the phase was to end, too: there the next phase is in its midst."""
    curve = {"sentences": 4, "points": 13}
    job = training_setup().job({**CONVERGED, "checkpoints": 14, "curve": curve})
    train_cell(job)
    folder = folder_of(job)
    assert steps_of(folder) == [4, 24]  # of 14 and 14
    sentences = corpus_sentences(job["inputs"]["corpus"], "heldout", 4)
    logged = TrainingLog(folder / "log.jsonl").lines("heldout")
    for number, has_adapter in ((2, False), (7, True)):
        place = folder / f"checkpoint-{number}"
        assert logged[number]["step"] == 2 * number
        assert (place / "adapter").exists() is has_adapter
        found = score_texts(*load_cell(place), sentences).bits_per_byte
        assert found == pytest.approx(logged[number]["bits_per_byte"], rel=1e-4)


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        (HALVES[::-1], r"phases\[1\].converged: no later phase can take its remaining steps"),
        (
            [HALVES[0], {**HALVES[1], "length": 64}],
            r"phases\[0\].converged: phases\[1\] has a different length; give both the same",
        ),
        ([HALVES[0], {**HALVES[1], "batch_sequences": 8}], "has a different batch_sequences"),
        ([HALVES[0], {**HALVES[1], "data": "tasks"}], "has a different data"),
        (
            [{**HALVES[0], "data": {"monolingual": 0.5, "tasks": 0.5}}, HALVES[1]],
            "the phase reads several texts; give it only one",
        ),
        (
            [{**HALVES[0], "converged": {"window": 0}}, HALVES[1]],
            r"phases\[0\].converged.window",
        ),
    ],
)
def test_a_converged_phase_without_a_fitting_next_phase_is_refused(phases, message):
    with pytest.raises(UserError, match=message):
        read_strategy({**SHARED, "phases": phases})
