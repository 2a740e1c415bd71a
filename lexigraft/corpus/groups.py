"""Corpus of a group of languages: training text mixed by shares, held-out text per member."""

import logging
import math
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from lexigraft.atomic import replacing_folder, write_jsonl, write_lines
from lexigraft.corpus.contamination import Overlap
from lexigraft.corpus.language import SUMMARIZATION, TRANSLATION, read_test_texts, size_of
from lexigraft.corpus.lines import read_part
from lexigraft.corpus.split import describe_reduced
from lexigraft.errors import UserError
from lexigraft.randomness import generator

logger = logging.getLogger(__name__)

MEMBERS = "members"
_ROUNDING = 1e-6  # tolerance for sums of shares with few digits


def mix_corpora(
    settings: Mapping[str, Any],
    members: Mapping[str, str | Path],
    folder: str | Path,
    seed: tuple[str | int, ...],
) -> tuple[list[str], dict[str, Any]]:
    """Write the text files of a group from the corpora of its members (VocADT, Appendix C).

    Returns the names of the files written, and facts for the card. No training sentence is or
    contains a held-out sentence, a test translation or a summary of any member, compared as for one
    language. `seed` are the names that seed the draws.

    Parameters
    ----------
    settings
        The group's entry in the registry: `name`, `train_sentences` (see `counts_of`) and `group`
        with its `shares` and `temperature` (see `shares_of`).
    members
        Language -> the folder of its corpus.
    folder
        Receives `train.txt`, sentences of all members in random order; `heldout.txt` and
        `members/<language>/heldout.txt`, equally many sentences of each, so that the largest set
        does not dominate; `english.txt`, the distinct English sentences of all; and empty task
        files, since a test belongs to one language.
    """
    folder, group = Path(folder), settings["group"]
    heldout = {name: list(read_part(place, "heldout")) for name, place in members.items()}
    held = (line for lines in heldout.values() for line in lines)
    tested = (test for place in members.values() for test in read_test_texts(Path(place)))
    tests = Overlap(chain(held, tested))
    train: dict[str, list[str]] = {}
    kept_out: dict[str, int] = {}
    for name, place in members.items():
        every = list(read_part(place))
        train[name] = [line for line in every if line not in tests]
        kept_out[name] = len(every) - len(train[name])
    try:
        sizes = {name: len(sentences) for name, sentences in train.items()}
        shares = shares_of(sizes, group["shares"], group["temperature"])
    except UserError as error:
        raise UserError(f"language {settings['name']}: {error}") from None
    counts = counts_of(sizes, shares, settings["train_sentences"])
    reduced, wanted = {}, settings["train_sentences"]
    if wanted is not None and (taken := sum(counts.values())) < wanted:
        reduced["train_sentences"] = {"wanted": wanted, "taken": taken}
        logger.warning(
            "%s: the texts are smaller than its size: %s",
            settings["name"],
            describe_reduced(reduced),
        )
    mixed = [
        train[name][place]
        for name, count in counts.items()
        for place in generator(*seed, "train", name).choice(sizes[name], count, replace=False)
    ]
    each = min(map(len, heldout.values()))
    heldout = {name: sentences[:each] for name, sentences in heldout.items()}
    english = dict.fromkeys(
        line for place in members.values() for line in read_part(place, "english")
    )
    parts = {
        "train": _shuffled(mixed, seed, "train"),
        "heldout": _shuffled([line for lines in heldout.values() for line in lines], seed, "held"),
        "english": _shuffled(list(english), seed, "english"),
    }
    for part, sentences in parts.items():
        write_lines(folder / f"{part}.txt", sentences)
    with replacing_folder(folder / MEMBERS) as written:
        for name, sentences in heldout.items():
            write_lines(written / name / "heldout.txt", sentences)
    for task in (TRANSLATION, SUMMARIZATION):
        write_jsonl(folder / task, [])
    logger.info("%s: %s", settings["name"], ", ".join(f"{n} {c}" for n, c in counts.items()))
    facts = {
        "members": {
            name: {
                "share": shares[name],
                "train_sentences": counts[name],
                "of": sizes[name],
                "kept_out_of_training": kept_out[name],
                "heldout_sentences": each,
            }
            for name in members
        },
        "reduced": reduced,
        "sizes": {part: size_of(sentences) for part, sentences in parts.items()},
    }
    files = [*(f"{part}.txt" for part in parts), TRANSLATION, SUMMARIZATION]
    return [*files, *(f"{MEMBERS}/{name}/heldout.txt" for name in members)], facts


def check_shares(members: list[str], shares: Mapping[str, float]) -> None:
    """Check that shares belong to members and leave a positive share for the other members.

    Raises `UserError` for a share of an unknown member, and for shares that do not add up to 1, or
    leave nothing for the others.
    """
    for name in shares:
        if name not in members:
            raise UserError(f"shares: '{name}' is no member; known are {', '.join(members)}")
    total, missing = sum(shares.values()), [name for name in members if name not in shares]
    if not missing and abs(total - 1) > _ROUNDING:
        raise UserError(f"shares: they add up to {total:g}, not 1; change them or leave one out")
    if missing and total > 1 - _ROUNDING:
        raise UserError(
            f"shares: they add up to {total:g}, which leaves nothing for {', '.join(missing)}; "
            "lower them or give these a share"
        )


def shares_of(
    sizes: Mapping[str, int], shares: Mapping[str, float], temperature: float
) -> dict[str, float]:
    """The share of each language in the training text; they add up to one.

    `shares` are fixed shares of some languages or of all, for example 1/n for English (VocADT,
    Appendix C). The others share the rest in proportion to size ** (1 / temperature), where the
    size is their number of sentences: 1 is proportional, larger values favour small languages,
    infinity gives equal shares (Aharoni et al. 2019, §4).
    """
    check_shares(list(sizes), shares)
    weights = {
        name: size ** (1 / temperature) for name, size in sizes.items() if name not in shares
    }
    rest = 1 - sum(shares.values())
    return {
        name: shares[name] if name in shares else rest * weights[name] / sum(weights.values())
        for name in sizes
    }


def counts_of(
    sizes: Mapping[str, int], shares: Mapping[str, float], total: int | None
) -> dict[str, int]:
    """Number of sentences of each language according to its share, rounded to an integer.

    `total` is the most that all have together; None, or more than there are: as many as possible
    without repeating a sentence.
    """
    # An integer quotient must not lose a sentence to floating-point rounding.
    most = min(math.floor(sizes[name] / shares[name] + _ROUNDING) for name in sizes)
    total = most if total is None else min(total, most)
    counts = {name: math.floor(total * shares[name]) for name in sizes}
    # The remaining sentences go to the largest remainders of those that have some left.
    by_remainder = sorted(sizes, key=lambda name: counts[name] - total * shares[name])
    having = [name for name in by_remainder if counts[name] < sizes[name]]
    for name in having[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


def _shuffled(sentences: list[str], seed: tuple[str | int, ...], what: str) -> list[str]:
    order = generator(*seed, "order", what).permutation(len(sentences))
    return [sentences[place] for place in order]
