"""What the runs of a task compute, estimated before its texts are prepared.

Each kind of task declares `cost(settings, sizes)`, which returns its `Work`. The time follows from
the size of the model and the speed of the device.
"""

import math
from typing import NamedTuple

# Assumptions, for texts that do not exist yet when their cost is estimated.
ARTICLE, CONTEXT, QUESTION = 20, 6, 2  # sentences; a question includes its answers
CHOICES, CHOICE_TESTS = 3, 2_000  # choices of a question, and questions of a benchmark
TESTS = 1_000  # examples of a test set
TRANSLATION_INSTRUCTION = 50  # tokens of the instruction of a translation prompt
# Maximum prompts of a generation batch, and its maximum tokens.
_BATCH_PROMPTS, _BATCH_TOKENS = 64, 2**16


class Work(NamedTuple):
    """What the runs of a task compute; `name` is the row of cost tables that it counts for."""

    name: str
    scored_tokens: float = 0.0  # tokens that a model reads, in prompts too
    decoding_steps: float = 0.0  # each reads all weights once
    trained_tokens: float = 0.0


class TextSize(NamedTuple):
    """Number of sentences of a text, and tokens per sentence in the vocabulary of a cell."""

    sentences: float
    tokens: float

    def tokens_of(self, sentences: int | None) -> float:
        """Tokens of at most this many sentences; None: of all."""
        return min(sentences or self.sentences, self.sentences) * self.tokens


class TaskSizes(NamedTuple):
    """Sizes of the tests of a cell, in the tokens of its vocabulary."""

    runs: int
    languages: int  # number of languages that a run tests
    tests: float  # test examples in each language
    sentence: float  # tokens of an average sentence in the tested language
    english_sentence: float
    heldout: TextSize
    english: TextSize


def generation(prompts: float, prompt_tokens: float, new_tokens: int, beams: int = 1) -> Work:
    """The work to read prompts and to continue each of them by `new_tokens`, in batches."""
    fitting = _BATCH_TOKENS // (beams * (prompt_tokens + new_tokens))
    batches = math.ceil(prompts / max(1, min(_BATCH_PROMPTS, fitting)))
    return Work("generation", prompts * prompt_tokens, batches * new_tokens)


def prompts_of_runs(sizes: TaskSizes, samples: int | None, redraw: bool = True) -> float:
    """Number of prompts that are continued: once each that runs draw, or all of every run."""
    drawn = min(samples or sizes.tests, sizes.tests)
    if not redraw:
        return sizes.runs * drawn * sizes.languages
    different = sizes.tests * (1 - (1 - drawn / sizes.tests) ** sizes.runs)
    return different * sizes.languages
