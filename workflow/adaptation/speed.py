"""Measures how fast this machine trains a model: a few steps on random tokens, in a new process.

python speed.py MODEL_FOLDER STRATEGY_AS_JSON    prints `step_time` as JSON
"""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, TrainerCallback

from lexigraft.hardware import device
from lexigraft.source.model import load_model
from lexigraft.training.data import SequenceDataset, concatenate, pack
from lexigraft.training.objective import Objective
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.objectives.mtp import MultiTokenPrediction, new_extra_head
from lexigraft.training.phase import micro_batch_tokens, run_phase
from lexigraft.training.settings import read_strategy
from lexigraft.training.trainable import FrozenWeights, own_parameters

STEPS = 4  # of each size; the first one is slower and not counted


class _Clock(TrainerCallback):
    def __init__(self) -> None:
        self.at: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.at.append(time.perf_counter())


def step_time(model_folder: str | Path, settings: Mapping[str, Any]) -> dict[str, float]:
    """Measure a step of the last phase of a strategy, which is given as plain data.

    An optimizer step takes `seconds_per_step`, plus `seconds_per_token` for each token. The model
    is trained like a cell, on random tokens, with objective `mtp` if the phase has it and `clm`
    otherwise: in steps of one sequence, and of as many as fit into a pass.
    """
    source, strategy = Path(model_folder), read_strategy(settings)
    phase = strategy.phases[-1]

    def round_frozen(model: PreTrainedModel) -> None:
        FrozenWeights(model, source).round_all_but(own_parameters(model, phase))

    model = load_model(source, torch.float32, device(), round_frozen)
    size = int(model.config.get_text_config().vocab_size)
    new_ids = range(max(0, size - 1000), size)
    FrozenWeights(model, source).prepare_phase(model, phase, new_ids=new_ids)

    def seconds(sequences: int) -> float:
        """The median time of a step of this many sequences."""
        count, clock = STEPS * sequences, _Clock()
        objective: Objective = CausalModeling()
        if phase.objective == "mtp":
            head = new_extra_head(model, "copied", 0)
            objective = MultiTokenPrediction(head, as_head=True, trained=True)
        text = np.random.default_rng(0).integers(size, size=count * phase.length)
        with TemporaryDirectory() as folder:
            run_phase(
                model,
                phase.model_copy(update={"batch_sequences": sequences}),
                strategy,
                SequenceDataset(pack(concatenate([text.tolist()]), phase.length), np.arange(count)),
                objective=objective,
                seed=0,
                folder=Path(folder),
                checkpoint=None,
                callbacks=[clock],
            )
        return float(np.median(np.diff(clock.at)))

    most = max(2, micro_batch_tokens(device().type) // phase.length)
    single = seconds(1)
    per_sequence = max(0.0, seconds(most) - single) / (most - 1)
    return {
        "seconds_per_step": max(0.0, single - per_sequence),
        "seconds_per_token": per_sequence / phase.length,
    }


if __name__ == "__main__":
    print(json.dumps(step_time(sys.argv[1], json.loads(sys.argv[2]))))
