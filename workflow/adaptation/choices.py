"""The choices that `lexigraft adapt` makes for options that are not set, and their reasons."""

import json
import logging
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lexigraft.errors import UserError
from workflow.adaptation.request import ResolvedRequest
from workflow.adaptation.text import (
    MOST_READ,
    UNDETERMINED,
    TextFacts,
    heldout_sentences,
    language_of,
    measure_text,
    script_name,
    warnings,
)
from workflow.config.registries import entries_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

NEW_TOKENS, INITIALIZER, MINUTES = 1000, "merge", 60.0
NO_TRAINING = "none"  # a strategy of the registry
_REQUESTED = "as requested"
_MERGE = "the default: it needs only the two tokenizers"
_ENGLISH = 200  # maximum number of English sentences
_FEWER = (500, 250, 100, 50)  # alternatives if a text is too small for NEW_TOKENS
_OCCURRENCES, _SHARE = 5, 0.9  # this share of new tokens must occur this often
_PASSES = 4  # maximum over a text, unless the user requests more tokens
_MARGIN = 0.8  # share of the time for training; the rest is for loading and held-out scoring
_SCORING = 0.2  # maximum share of the time for scoring the source afterwards
_FORWARD = 0.5  # approximate time of scoring a token, relative to training on it
_SEPARATOR = 1  # token after each sentence
_STEPS = 200  # minimum number of optimizer steps, if the budget allows
_FEW_STEPS = 1000
_BATCH = 8  # maximum sequences per step, as in Yamaguchi et al.


class Reason(NamedTuple):
    """A choice as shown to the user: its subject, the chosen value, and the reason."""

    what: str
    chosen: str
    why: str


@dataclass(frozen=True)
class Choices:
    """All choices with their reasons; without a `budget` nothing is trained.

    `strategy` is a name in the registry. `phases` are its phases if sequences must be shorter than
    it defines, otherwise empty. `sizes` are the sizes of the parts of the text.
    """

    new_tokens: int
    initializer: str
    strategy: str
    budget: "Budget | None"
    sizes: dict[str, int | None]
    phases: list[dict[str, Any]]
    on_gpu: bool
    reasons: list[Reason]


class Speed(NamedTuple):
    """The training speed of this machine, and the `origin` of the numbers as shown to the user.

    A step takes `seconds_per_step` plus `seconds_per_token` for each of its tokens.
    """

    seconds_per_step: float
    seconds_per_token: float
    origin: str

    def tokens_per_second(self, tokens: int) -> float:
        """Tokens per second in steps of this many tokens."""
        return tokens / (self.seconds_per_step + tokens * self.seconds_per_token)


@dataclass(frozen=True)
class NewTokens:
    """The number of new tokens, and tokens per sentence without and with them."""

    count: int
    before: float
    after: float
    why: str


@dataclass(frozen=True)
class Budget:
    """The amount of training.

    Training reads `tokens` of the new vocabulary: `sentences` of the training text (None is all),
    `epochs` times, in steps of `batch_sequences` sequences.
    """

    tokens: int
    sentences: int | None
    epochs: float
    batch_sequences: int
    learning_rate: float
    why: str


def choose(
    resolved: ResolvedRequest,
    facts: TextFacts,
    source: str,
    *,
    new_tokens: int | None,
    initializer: str,
    strategy: str | None,
    tokens: int | None,
    minutes: float,
    threads: int,
    on_gpu: bool,
) -> Choices:
    """Choose what is not given, based on the model, the text and the machine.

    `source` is the folder of the prepared source model. Raises a `UserError` if the text is too
    small for the request, or if the tokenizer cannot be expanded.
    """
    from lexigraft.source.model import load_config, open_source
    from lexigraft.source.positions import context_length

    card = json.loads(Path(source, "card.json").read_text(encoding="utf-8"))
    model, parameters = open_source(source), int(card["parameters"])
    folder = model.folder
    new = choose_new_tokens(model.tokenizer(), facts, new_tokens)
    named = _default_strategy(on_gpu, parameters) if strategy is None else (strategy, _REQUESTED)
    entry = entries_of("strategies")[named[0]]
    positions = context_length(load_config(folder))
    phases = [
        phase | {"length": min(phase["length"], positions or phase["length"])}
        for phase in entry["phases"]
    ]
    budget, training = None, Reason("training", "none", _REQUESTED)
    heldout = heldout_sentences(facts.sentences)
    if phases:
        speed = None
        if tokens is None:
            settings = entry | {"phases": phases, "gradient_checkpointing": on_gpu}
            speed = training_speed(folder, settings, parameters, threads)
            heldout = min(heldout, soon_scored(new, minutes, speed))
        length = max(phase["length"] for phase in phases)
        budget = plan_budget(
            facts, heldout, new, length, tokens=tokens, minutes=minutes, speed=speed
        )
        training = _training(budget)
    reasons = [
        Reason(
            "model",
            resolved.model,
            f"{parameters / 1e6:,.1f} million parameters, {card['tokenizer_family']}",
        ),
        *_of_text(resolved, facts),
        Reason(
            "new tokens",
            f"{new.count:,}",
            f"{new.why}; a sentence takes {new.after:.1f} tokens instead of {new.before:.1f}",
        ),
        Reason("initializer", initializer, _MERGE if initializer == INITIALIZER else _REQUESTED),
        Reason("strategy", *named),
        training,
    ]
    if resolved.baselines and budget:
        times = f"{new.before / new.after:.1f} times as many tokens for the same text"
        reasons.append(Reason("baselines", "source model, LAPT", f"LAPT needs {times}"))
    return Choices(
        new_tokens=new.count,
        initializer=initializer,
        strategy=named[0],
        budget=budget,
        sizes=_sizes(resolved, facts, budget, heldout),
        phases=phases if phases != entry["phases"] else [],
        on_gpu=on_gpu,
        reasons=reasons,
    )


def choose_new_tokens(
    tokenizer: "PreTrainedTokenizerFast", facts: TextFacts, requested: int | None
) -> NewTokens:
    """As many new tokens as requested, or 1,000, or as many as occur often enough in the text.

    Raises a `UserError` if the tokenizer cannot be expanded, or not by the requested number.
    """
    from collections import Counter

    from lexigraft.inference.text_encoding import tokenize
    from lexigraft.vocabulary.expand import expanded_sizes, new_token_ids

    before = sum(map(len, tokenize(tokenizer, facts.sample))) / len(facts.sample)
    sizes = [requested] if requested else [NEW_TOKENS, *_FEWER]
    best: NewTokens | None = None
    for size, expanded in expanded_sizes(tokenizer, facts.sample, sizes):
        counts = Counter(token for ids in tokenize(expanded, facts.sample) for token in ids)
        after = counts.total() / len(facts.sample)
        new = new_token_ids(tokenizer, expanded)
        often = sum(counts[token] >= _OCCURRENCES for token in new) / size
        if requested or (size in sizes and often >= _SHARE):
            best = NewTokens(size, before, after, "")
    if requested:
        if best is None or best.count < requested:
            found = best.count if best else 0
            if facts.sentences > len(facts.sample):  # the whole text may yield more
                return NewTokens(requested, before, best.after if best else before, _REQUESTED)
            raise UserError(
                f"--new-tokens: {requested:,} requested, but the text only yields {found:,}; "
                "request fewer or provide more text"
            )
        return replace(best, why=_REQUESTED)
    if best is None:
        raise UserError(
            f"--text: too little text to learn {_FEWER[-1]} tokens; provide more, or request fewer "
            "tokens with --new-tokens"
        )
    why = "the default" if best.count == NEW_TOKENS else (
        f"with more, over a tenth of them would occur fewer than {_OCCURRENCES} times in the text"
    )  # fmt: skip
    return replace(best, why=why)


def _default_strategy(on_gpu: bool, parameters: int) -> tuple[str, str]:
    if on_gpu:
        return "2x2ls-mtp-512", "recommended for small texts (Yamaguchi et al.); a GPU is available"
    slow = "" if parameters < 1e9 else "; a model of this size is slow without one"
    return (
        "2x2ls-clm-512",
        f"trains embeddings and four layers, since there is no GPU{slow}",
    )


def _of_text(resolved: ResolvedRequest, facts: TextFacts) -> list[Reason]:
    more = "" if facts.is_whole else " or more"
    size = f"{facts.sentences:,} sentences{more}, {_megabytes(facts.bytes)}"
    script = f"{facts.share:.0%} of the letters are {script_name(facts.script)}"
    details = [f"distinct sentences among {facts.lines:,} lines", script, *warnings(facts)]
    name = f"{resolved.language} ({resolved.code})"
    if resolved.code != language_of(facts):
        why = _REQUESTED
    elif resolved.code == UNDETERMINED:
        why = "several languages use this script; specify yours with --language, such as te"
    else:
        why = "derived from the script"
    return [Reason("text", size, "; ".join(details)), Reason("language", name, why)]


def _training(budget: "Budget") -> Reason:
    read = f"{budget.sentences:,} sentences" if budget.sentences else "all sentences"
    times = "once" if budget.epochs == 1 else f"{budget.epochs:.1f} times"
    several = "s" if budget.batch_sequences > 1 else ""
    steps = (
        f"{budget.batch_sequences} sequence{several} per step, "
        f"learning rate {budget.learning_rate:g}"
    )
    tokens = f"{budget.tokens:,} tokens: {read}, {times}"
    return Reason("training", tokens, f"{budget.why}; {steps}")


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.1f} kB"


def _sizes(
    resolved: ResolvedRequest, facts: TextFacts, budget: "Budget | None", heldout: int
) -> dict[str, int | None]:
    """Sizes of the parts of the text, limited to what the text contains."""
    english = _ENGLISH
    if resolved.english:
        english = min(english, measure_text(resolved.english, "--english", least=1).sentences)
    needed = (budget and budget.sentences) or 0
    return {
        "train_sentences": None if facts.is_whole else max(MOST_READ * 3 // 4, needed),
        "heldout_sentences": heldout,
        "english_sentences": english,
    }


def soon_scored(new: NewTokens, minutes: float, speed: "Speed") -> int:
    """Number of sentences scored with the source in a fifth of the training time; at least 100."""
    each = new.before * _FORWARD * speed.seconds_per_token
    return max(100, int(_SCORING * 60 * minutes / each))


def plan_budget(
    facts: TextFacts,
    heldout: int,
    new: NewTokens,
    length: int,
    *,
    tokens: int | None,
    minutes: float,
    speed: "Speed | None",
) -> Budget:
    """Choose how much of the text is trained on, how often, and in steps of which size.

    `heldout` sentences are not trained on. `length` is that of a sequence in tokens. If `tokens` is
    given, that many are read regardless of the time; otherwise as many as fit into `minutes` at a
    `speed`, but no text more than four times.
    """
    sentence = new.after + _SEPARATOR
    there = (facts.sentences - heldout) * sentence
    if tokens is None:
        assert speed is not None
        tokens, rate = _fitting(length, minutes, speed)
        why = time = f"{minutes:g} minutes at {rate:,.0f} tokens/s ({speed.origin})"
        if facts.is_whole and tokens > _PASSES * there:
            tokens = int(_PASSES * there)
            why = f"{_PASSES} passes over the text, which take less than {time}; more passes "
            why += "help little (Muennighoff et al. 2023); use --tokens for more"
    else:
        why = _REQUESTED
    sentences: int | None = max(1, int(tokens / sentence))
    epochs = 1.0
    if facts.is_whole and tokens >= there:
        sentences, epochs = None, round(tokens / there, 3)
    batch = _batch_sequences(tokens, length)
    steps = max(1, math.ceil(tokens / (length * batch)))
    learning_rate = 5e-4 if steps < _FEW_STEPS else 1e-4
    return Budget(tokens, sentences, epochs, batch, learning_rate, why)


def _batch_sequences(tokens: int, length: int) -> int:
    return min(_BATCH, max(1, tokens // (length * _STEPS)))


def _fitting(length: int, minutes: float, speed: "Speed") -> tuple[int, float]:
    """The number of tokens that fit into some minutes, and tokens per second.

    Larger steps are faster. Uses the largest steps that this number of tokens can be divided into.
    """
    for batch in range(_BATCH, 0, -1):
        rate = speed.tokens_per_second(batch * length)
        tokens = max(length, int(rate * 60 * minutes * _MARGIN))
        if _batch_sequences(tokens, length) >= batch:
            break
    return tokens, rate


# ---- speed -------------------------------------------------------------------------------------


def training_speed(
    folder: Path, strategy: Mapping[str, Any], parameters: int, threads: int
) -> Speed:
    """The speed at which this machine trains a strategy.

    A few steps are timed in a separate process. If that fails, the speed is estimated by the cost
    model, as it is for VocADT's adapters, whose recipes do not exist yet.
    """
    if "adapter" in strategy["phases"][-1]["trainable"]:
        return modelled_speed(strategy, parameters)
    # -P: do not import modules from the working folder.
    program = [sys.executable, "-P", "-m", "lexigraft.training.speed"]
    own = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    command = [*program, str(folder), json.dumps(strategy)]
    measured = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    try:
        step = json.loads(measured.stdout.splitlines()[-1])
        return Speed(**step, origin="measured here")
    except (IndexError, ValueError, TypeError):
        logger.warning(
            "the speed could not be measured (%s); using the estimate of the cost model",
            (measured.stderr.strip().splitlines() or ["no message"])[-1],
        )
    return modelled_speed(strategy, parameters)


def modelled_speed(strategy: Mapping[str, Any], parameters: int) -> Speed:
    """The speed estimated by the cost model, for the available GPU or a CPU."""
    import torch

    from lexigraft.machine import PEAKS, known_device
    from workflow.cost import DEVICE, TRAINING, training_flops

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    device = known_device(name) or DEVICE
    each = training_flops(strategy["phases"][-1], strategy["gradient_checkpointing"], parameters)
    return Speed(0.0, each / (TRAINING * PEAKS[device].flops), f"cost model for {device}")
