"""Splits an optimizer step into forward and backward passes that fit into memory.

The split changes only the rounding of sums and the draws of dropout.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lexigraft.machine import setting

TOKENS = "LEXIGRAFT_PASS_TOKENS"  # overrides the tokens of a pass
# The size of the vocabulary does not matter: see `inference.chunked_logits`.
_TOKENS = {"cpu": 2048, "cuda": 4096}


def pass_tokens(device_type: str) -> int:
    """The maximum tokens of a pass, including padding: `LEXIGRAFT_PASS_TOKENS`, or by hardware.

    Raises a UserError if the variable is not a whole number above 0.
    """
    return setting("pass_tokens") or _TOKENS[device_type]


@dataclass(frozen=True)
class PhaseMemory:
    """How a phase uses the memory of a GPU.

    The maximum `tokens` of a pass, and the share of the layers whose activations are recomputed if
    the strategy has `gradient_checkpointing`.
    """

    tokens: int
    recompute: float


def usual_memory(device_type: str) -> PhaseMemory:
    """The default: by the machine's settings, or by the hardware."""
    share = setting("recompute")
    return PhaseMemory(pass_tokens(device_type), 1.0 if share is None else share)


def split_step(
    lengths: Sequence[int] | np.ndarray, tokens: int, processes: int = 1
) -> list[list[list[int]]]:
    """Split a step into passes of each process: indices into `lengths`, the tokens of sequences.

    A pass has at most `tokens` tokens, with shorter sequences padded to the longest one, or a
    single sequence. All processes have the same number of passes, as few as possible; some may be
    empty. The sizes of passes differ by at most one sequence.
    """
    sizes = np.asarray(lengths)
    fitting = sizes[sizes <= tokens]
    fewest = len(sizes) - len(fitting) + math.ceil(fitting.sum() / tokens)
    for count in range(math.ceil(fewest / processes), len(sizes) + 1):
        parts = np.array_split(np.arange(len(sizes)), count * processes)
        if all(len(part) < 2 or len(part) * sizes[part].max() <= tokens for part in parts):
            break
    return [[part.tolist() for part in parts[rank::processes]] for rank in range(processes)]
