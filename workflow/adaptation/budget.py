"""How much `lexigraft adapt` trains: tokens for `--minutes`, and steps for tokens."""

import json
import logging
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from workflow.adaptation.text import TextFacts

logger = logging.getLogger(__name__)

MINUTES = 60.0
AS_REQUESTED = "as requested"
_PASSES = 4  # maximum over a text, unless the user requests more tokens
_MARGIN = 0.8  # share of the time for training; the rest is for loading and held-out scoring
_SCORING = 0.2  # maximum share of the time for scoring the source afterwards
_FORWARD = 0.5  # approximate time of scoring a token, relative to training on it
_SEPARATOR = 1  # token after each sentence
_STEPS = 200  # minimum number of optimizer steps, if the budget allows
_FEW_STEPS = 1000  # below this number, the learning rate is higher
_BATCH = 8  # maximum sequences per step, as in Yamaguchi et al.


class TokenLengths(NamedTuple):
    """Tokens per sentence, in the source's vocabulary and in the new one."""

    source: float
    target: float


class Speed(NamedTuple):
    """A step takes `seconds_per_step` plus `seconds_per_token` for each of its tokens."""

    seconds_per_step: float
    seconds_per_token: float
    origin: str  # where the numbers come from


@dataclass(frozen=True)
class Budget:
    """The amount of training: `tokens` of the new vocabulary.

    They are `sentences` of the training text (None is all), `epochs` times, in steps of
    `batch_sequences` sequences. `reason` explains the number of tokens.
    """

    tokens: int
    sentences: int | None
    epochs: float
    batch_sequences: int
    learning_rate: float
    reason: str

    def describe(self) -> tuple[str, str]:
        """The amount, and its reason."""
        text = f"{self.sentences:,} sentences" if self.sentences else "all sentences"
        times = "once" if self.epochs == 1 else f"{self.epochs:.1f} times"
        sequences = f"{self.batch_sequences} sequence{'s' if self.batch_sequences > 1 else ''}"
        steps = f"{sequences} per step, learning rate {self.learning_rate:g}"
        return f"{self.tokens:,} tokens: {text}, {times}", f"{self.reason}; {steps}"


def plan_budget(
    facts: TextFacts,
    heldout: int,
    lengths: TokenLengths,
    length: int,
    *,
    tokens: int | None,
    minutes: float,
    speed: Speed | None,
) -> Budget:
    """Choose how much of the text is trained on, how often, and in steps of which size.

    `heldout` sentences are not trained on. `length` is that of a sequence in tokens. Without
    `tokens`, as many are read as fit into `minutes` at a `speed`, but no text more than four times.
    """
    sentence = lengths.target + _SEPARATOR
    available = (facts.sentences - heldout) * sentence
    reason = AS_REQUESTED
    if tokens is None:
        assert speed is not None
        # Larger steps are faster: use the largest that this number of tokens can be divided into.
        for batch in range(_BATCH, 0, -1):
            step = batch * length
            rate = step / (speed.seconds_per_step + step * speed.seconds_per_token)
            tokens = max(length, int(rate * 60 * minutes * _MARGIN))
            if _batch_sequences(tokens, length) >= batch:
                break
        reason = f"{minutes:g} minutes at {rate:,.0f} tokens/s ({speed.origin})"
        if facts.is_whole and tokens > _PASSES * available:
            tokens = int(_PASSES * available)
            reason = (
                f"{_PASSES} passes over the text, which take less than {reason}; more passes help "
                "little (Muennighoff et al. 2023); use --tokens for more"
            )
    sentences: int | None = max(1, int(tokens / sentence))
    epochs = 1.0
    if facts.is_whole and tokens >= available:
        sentences, epochs = None, round(tokens / available, 3)
    batch = _batch_sequences(tokens, length)
    steps = max(1, math.ceil(tokens / (length * batch)))
    learning_rate = 5e-4 if steps < _FEW_STEPS else 1e-4
    return Budget(tokens, sentences, epochs, batch, learning_rate, reason)


def heldout_within(lengths: TokenLengths, minutes: float, speed: Speed) -> int:
    """Number of sentences scored with the source in a fifth of the training time; at least 100."""
    seconds = lengths.source * _FORWARD * speed.seconds_per_token
    return max(100, int(_SCORING * 60 * minutes / seconds))


def _batch_sequences(tokens: int, length: int) -> int:
    return min(_BATCH, max(1, tokens // (length * _STEPS)))


def training_speed(
    folder: Path, strategy: Mapping[str, Any], parameters: int, threads: int
) -> Speed:
    """The speed at which this machine trains a strategy, from a few steps in a separate process.

    If that fails, and for VocADT's adapters, whose recipes do not exist yet, it is that of the cost
    model.
    """
    if "adapter" in strategy["phases"][-1]["trainable"]:
        return modelled_speed(strategy, parameters)
    # -P: do not import modules from the working folder.
    program = [sys.executable, "-P", "-m", "lexigraft.training.speed"]
    command = [*program, str(folder), json.dumps(strategy)]
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    try:
        return Speed(**json.loads(process.stdout.splitlines()[-1]), origin="measured here")
    except (IndexError, ValueError, TypeError):
        logger.warning(
            "the speed could not be measured (%s); using the estimate of the cost model",
            (process.stderr.strip().splitlines() or ["no message"])[-1],
        )
    return modelled_speed(strategy, parameters)


def modelled_speed(strategy: Mapping[str, Any], parameters: int) -> Speed:
    """The speed estimated by the cost model, for the available GPU or a CPU."""
    import torch

    from lexigraft.machine import PEAKS, known_device
    from workflow.cost import DEVICE, TRAINING, training_flops

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    device = known_device(name) or DEVICE
    flops = training_flops(strategy["phases"][-1], strategy["gradient_checkpointing"], parameters)
    return Speed(0.0, flops / (TRAINING * PEAKS[device].flops), f"cost model for {device}")
