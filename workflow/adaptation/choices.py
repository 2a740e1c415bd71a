"""The choices that `lexigraft adapt` makes for options that are not set, and their reasons."""

import json
import logging
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lexigraft.artifacts.cards import read_card
from lexigraft.errors import UserError
from lexigraft.gpus import devices
from lexigraft.inference.text_encoding import tokenize
from lexigraft.machine import PEAKS, known_device
from lexigraft.settings import plain
from lexigraft.source.positions import context_length
from lexigraft.training.settings import read_strategy
from workflow.adaptation.study import Adaptation, Choices
from workflow.adaptation.text import (
    MOST_READ,
    UNDETERMINED,
    TextFacts,
    heldout_sentences,
    language_of,
    measure_text,
    script_name,
)
from workflow.config.registries import entries_of
from workflow.cost import DEVICE, TRAINING, training_flops

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

NEW_TOKENS, INITIALIZER = 1000, "merge"
_FEWER = (500, 250, 100, 50)  # alternatives if a text is too small for NEW_TOKENS
_OCCURRENCES, _SHARE = 5, 0.9  # this share of new tokens must occur this often
_ENGLISH = 200  # maximum number of English sentences
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


@dataclass(frozen=True)
class NewTokens:
    """The number of new tokens, why, and tokens per sentence without and with them."""

    count: int
    lengths: TokenLengths
    reason: str


def choose(adaptation: Adaptation, facts: TextFacts, source: Path, threads: int) -> Choices:
    """Choose what is not requested, based on the model, the text and the machine.

    `source` is the folder of the prepared source model. Raises a `UserError` if the text is too
    small for the request, or if the tokenizer cannot be expanded.
    """
    from lexigraft.source.model import load_config, open_source

    request, card = adaptation.request, read_card(source)
    model, parameters = open_source(source), int(card["parameters"])
    new = choose_new_tokens(model.tokenizer(), facts, request.new_tokens)
    strategy, reason = request.strategy, AS_REQUESTED
    if strategy is None and devices():
        strategy = "2x2ls-mtp-512"
        reason = "recommended for small texts (Yamaguchi et al.); a GPU is available"
    elif strategy is None:
        slow = "" if parameters < 1e9 else "; a model of this size is slow without one"
        strategy = "2x2ls-clm-512"
        reason = f"trains embeddings and four layers, since there is no GPU{slow}"
    entry = plain(entries_of("strategies")[strategy])
    positions = context_length(load_config(model.folder))
    phases = [
        phase | {"length": min(phase["length"], positions or phase["length"])}
        for phase in entry["phases"]
    ]
    training, amount = None, ("none", AS_REQUESTED)
    heldout = heldout_sentences(facts.sentences)
    english = _ENGLISH  # sentences, limited to what a text of the user contains
    if request.english:
        settings = adaptation.text_settings([request.english])
        english = min(_ENGLISH, measure_text(settings, "--english", 1, "en").sentences)
    train_sentences = None if facts.is_whole else MOST_READ * 3 // 4
    if phases:
        speed = None
        checkpointing = {"gradient_checkpointing": bool(devices())}
        if request.tokens is None:
            settings = entry | checkpointing | {"phases": phases}
            speed = training_speed(model.folder, settings, parameters, threads)
            # Scoring them with the source takes at most a fifth of the time.
            seconds = new.lengths.source * _FORWARD * speed.seconds_per_token
            heldout = min(heldout, max(100, int(_SCORING * 60 * request.minutes / seconds)))
        budget = plan_budget(
            facts,
            heldout,
            new.lengths,
            max(phase["length"] for phase in phases),
            tokens=request.tokens,
            minutes=request.minutes,
            speed=speed,
        )
        amount = budget.describe()
        if train_sentences:
            train_sentences = max(train_sentences, budget.sentences or 0)
        training = {
            "sentences": budget.sentences,
            "epochs": budget.epochs,
            "batch_sequences": budget.batch_sequences,
            "learning_rate": budget.learning_rate,
            **checkpointing,
            **({"phases": phases} if phases != entry["phases"] else {}),
        }
    origin = AS_REQUESTED
    if request.initializer == INITIALIZER:
        origin = "the default: it needs only the two tokenizers"
    lengths = f"{new.lengths.target:.1f} tokens instead of {new.lengths.source:.1f}"
    size = f"{parameters / 1e6:,.1f} million parameters, {card['tokenizer_family']}"
    reasons = [
        ("model", adaptation.model, size),
        *_about_the_text(adaptation, facts),
        ("new tokens", f"{new.count:,}", f"{new.reason}; a sentence takes {lengths}"),
        ("initializer", request.initializer, origin),
        ("strategy", strategy, reason),
        ("training", *amount),
    ]
    if adaptation.baselines and training:
        times = f"{new.lengths.source / new.lengths.target:.1f} times as many tokens"
        reasons.append(("baselines", "source model, LAPT", f"LAPT needs {times} for the same text"))
    return Choices(
        new_tokens=new.count,
        strategy=strategy,
        training=training,
        sizes={
            "train_sentences": train_sentences,
            "heldout_sentences": heldout,
            "english_sentences": english,
        },
        reasons=[list(reason) for reason in reasons],
    )


def choose_new_tokens(
    tokenizer: "PreTrainedTokenizerFast", facts: TextFacts, requested: int | None
) -> NewTokens:
    """As many new tokens as requested, or 1,000, or as many as occur often enough in the text.

    Raises a `UserError` if the tokenizer cannot be expanded, or not by the requested number.
    """
    from lexigraft.vocabulary.expand import expanded_sizes, new_token_ids

    sentences = len(facts.sample)
    before = sum(map(len, tokenize(tokenizer, facts.sample))) / sentences
    sizes = [requested] if requested else [NEW_TOKENS, *_FEWER]
    count, after = 0, before
    for size, expanded in expanded_sizes(tokenizer, facts.sample, sizes):
        counts = Counter(token for ids in tokenize(expanded, facts.sample) for token in ids)
        frequent = sum(
            counts[token] >= _OCCURRENCES for token in new_token_ids(tokenizer, expanded)
        )
        if requested or (size in sizes and frequent / size >= _SHARE):
            count, after = size, counts.total() / sentences
    lengths = TokenLengths(before, after)
    if requested:
        if count < requested and facts.sentences <= sentences:  # the whole text yields no more
            raise UserError(
                f"--new-tokens: {requested:,} requested, but the text only yields {count:,}; "
                "request fewer or provide more text"
            )
        return NewTokens(requested, lengths, AS_REQUESTED)
    if not count:
        raise UserError(
            f"--text: too little text to learn {_FEWER[-1]} tokens; provide more, or request fewer "
            "tokens with --new-tokens"
        )
    scarce = f"with more, over a tenth of them would occur fewer than {_OCCURRENCES} times"
    return NewTokens(
        count, lengths, "the default" if count == NEW_TOKENS else f"{scarce} in the text"
    )


def _about_the_text(adaptation: Adaptation, facts: TextFacts) -> list[tuple[str, str, str]]:
    size = f"{facts.bytes / 1e6:,.1f} MB" if facts.bytes >= 1e6 else f"{facts.bytes / 1e3:,.1f} kB"
    text = f"{facts.sentences:,} sentences{'' if facts.is_whole else ' or more'}, {size}"
    script = f"{facts.share:.0%} of the letters are {script_name(facts.script)}"
    details = [f"distinct sentences among {facts.lines:,} lines", script]
    if facts.duplicates > facts.lines / 5:
        details.append(
            f"{facts.duplicates / facts.lines:.0%} of the lines are repeated; each is used once"
        )
    if facts.lost:
        details.append(f"{facts.lost:,} lines contain U+FFFD: they were decoded incorrectly")
    if facts.share < 0.5:
        details.append(
            f"only {facts.share:.0%} of the letters are in one script ({script_name(facts.script)})"
        )
    if facts.characters / facts.sentences > 2_000:
        details.append("lines are very long; the text should have one sentence per line")
    if adaptation.code != language_of(facts):
        reason = AS_REQUESTED
    elif adaptation.code == UNDETERMINED:
        reason = "several languages use this script; specify yours with --language, such as te"
    else:
        reason = "derived from the script"
    language = f"{adaptation.language} ({adaptation.code})"
    return [("text", text, "; ".join(details)), ("language", language, reason)]


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
        tokens, rate = length, 0.0
        # Larger steps are faster: use the largest that this number of tokens can be divided into.
        for batch in range(_BATCH, 0, -1):
            step = batch * length
            rate = step / (speed.seconds_per_step + step * speed.seconds_per_token)
            tokens = max(length, int(rate * 60 * minutes * _MARGIN))
            if _batch_sequences(tokens, length) >= batch:
                break
        reason = (
            f"{minutes:g} minute{'s' * (minutes != 1)} at {rate:,.0f} tokens/s ({speed.origin})"
        )
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


def _batch_sequences(tokens: int, length: int) -> int:
    return min(_BATCH, max(1, tokens // (length * _STEPS)))


def training_speed(
    folder: Path, strategy: Mapping[str, Any], parameters: int, threads: int
) -> Speed:
    """The speed at which this machine trains a strategy, from a few steps in a separate process.

    If that fails, and for VocADT's adapters, whose recipes do not exist yet, it is that of the cost
    model for the available GPU or a CPU.
    """
    import torch

    if "adapter" not in strategy["phases"][-1]["trainable"]:
        # -P: do not import modules from the working folder.
        program = [sys.executable, "-P", str(Path(__file__).with_name("speed.py"))]
        process = subprocess.run(
            [*program, str(folder), json.dumps(strategy)],
            env=os.environ | dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)),
            capture_output=True,
            text=True,
            check=False,
        )
        try:
            return Speed(**json.loads(process.stdout.splitlines()[-1]), origin="measured here")
        except (IndexError, ValueError, TypeError):
            logger.warning(
                "the speed could not be measured (%s); using the estimate of the cost model",
                (process.stderr.strip().splitlines() or ["no message"])[-1],
            )
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    device = known_device(name) or DEVICE
    read = read_strategy(strategy)
    flops = training_flops(read.phases[-1], read.gradient_checkpointing, parameters)
    return Speed(0.0, flops / (TRAINING * PEAKS[device].flops), f"cost model for {device}")
