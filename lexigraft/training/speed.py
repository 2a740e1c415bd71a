"""How fast this machine trains a model: a few steps on random tokens, in a process of its own.

python -m lexigraft.training.speed MODEL_FOLDER STRATEGY_AS_JSON    prints tokens a second
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
from lexigraft.training.data import SequenceDataset, TextBlocks
from lexigraft.training.frozen_weights import FrozenWeights
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.objectives.mtp import MultiTokenPrediction, new_extra_head
from lexigraft.training.passes import pass_tokens
from lexigraft.training.phase import run_phase
from lexigraft.training.settings import read_strategy
from lexigraft.training.trainable import own_parameters

STEPS = 3  # the first, which is slower, does not count


class _Clock(TrainerCallback):
    def __init__(self) -> None:
        self.at: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.at.append(time.perf_counter())


def tokens_per_second(model_folder: str | Path, settings: Mapping[str, Any]) -> float:
    """Tokens a second of the last phase of a strategy, given as plain data.

    The model is trained as cells are, on text of random tokens, with objective `mtp` where the
    phase has it and else `clm`.
    """
    source = Path(model_folder)
    last = settings["phases"][-1]
    # One pass a step: how many passes a step has hardly changes the time of a token.
    together = max(1, pass_tokens(device().type) // last["length"])
    phases = [*settings["phases"][:-1], {**last, "batch_sequences": together}]
    strategy = read_strategy({**settings, "phases": phases})
    phase = strategy.phases[-1]

    def hold(model: PreTrainedModel) -> None:
        FrozenWeights(model, source).hold(own_parameters(model, phase))

    model = load_model(source, torch.float32, device(), hold)
    size = int(model.config.get_text_config().vocab_size)
    new_ids = range(max(0, size - 1000), size)
    FrozenWeights(model, source).prepare_phase(model, phase, new_ids=new_ids)
    sequences, length = STEPS * together, phase.length
    text = np.random.default_rng(0).integers(size, size=sequences * length).astype(np.int32)
    objective: Any = CausalModeling()
    if phase.objective == "mtp":
        head = new_extra_head(model, "copied", 0)
        objective = MultiTokenPrediction(head, as_head=True, trained=True)
    clock = _Clock()
    with TemporaryDirectory() as folder:
        run_phase(
            model,
            phase,
            strategy,
            SequenceDataset(TextBlocks(text, length), np.arange(sequences)),
            objective=objective,
            seed=0,
            folder=Path(folder),
            checkpoint=None,
            callbacks=[clock],
        )
    counted = (STEPS - 1) * together * length
    return counted / (clock.at[-1] - clock.at[0])


if __name__ == "__main__":
    print(json.dumps(tokens_per_second(sys.argv[1], json.loads(sys.argv[2]))))
