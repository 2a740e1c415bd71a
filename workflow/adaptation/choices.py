"""The choices that `lexigraft adapt` makes for options that are not set, and their reasons."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lexigraft.artifacts.cards import read_card
from lexigraft.errors import UserError
from lexigraft.gpus import devices
from workflow.adaptation.budget import (
    AS_REQUESTED,
    TokenLengths,
    heldout_within,
    plan_budget,
    training_speed,
)
from workflow.adaptation.study import Adaptation, Choices
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

NEW_TOKENS, INITIALIZER = 1000, "merge"
_FEWER = (500, 250, 100, 50)  # alternatives if a text is too small for NEW_TOKENS
_OCCURRENCES, _SHARE = 5, 0.9  # this share of new tokens must occur this often
_ENGLISH = 200  # maximum number of English sentences


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
    from lexigraft.source.positions import context_length

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
    entry = entries_of("strategies")[strategy]
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
        english = min(_ENGLISH, measure_text(settings, "--english", least=1).sentences)
    train_sentences = None if facts.is_whole else MOST_READ * 3 // 4
    if phases:
        speed = None
        checkpointing = {"gradient_checkpointing": bool(devices())}
        if request.tokens is None:
            settings = entry | checkpointing | {"phases": phases}
            speed = training_speed(model.folder, settings, parameters, threads)
            heldout = min(heldout, heldout_within(new.lengths, request.minutes, speed))
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
    from lexigraft.inference.text_encoding import tokenize
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
    details = [f"distinct sentences among {facts.lines:,} lines", script, *warnings(facts)]
    if adaptation.code != language_of(facts):
        reason = AS_REQUESTED
    elif adaptation.code == UNDETERMINED:
        reason = "several languages use this script; specify yours with --language, such as te"
    else:
        reason = "derived from the script"
    language = f"{adaptation.language} ({adaptation.code})"
    return [("text", text, "; ".join(details)), ("language", language, reason)]
