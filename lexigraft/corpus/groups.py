"""The corpus of a group of languages: texts of its members and their shares, see `mixture`."""

import logging
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from lexigraft.artifacts.atomic import replacing_folder, write_json, write_jsonl, write_lines
from lexigraft.corpus.contamination import Overlap
from lexigraft.corpus.language import SUMMARIZATION, TRANSLATION, read_test_texts, size_of
from lexigraft.corpus.mixture import MEMBERS, MIXTURE, ROUNDING, check_shares, read_part
from lexigraft.corpus.split import log_reduced
from lexigraft.corpus.stored_lines import StoredLines
from lexigraft.errors import UserError
from lexigraft.randomness import generator

logger = logging.getLogger(__name__)


def mix_corpora(
    settings: Mapping[str, Any],
    members: Mapping[str, str | Path],
    folder: str | Path,
    seed: tuple[str | int, ...],
) -> tuple[list[str], dict[str, Any]]:
    """Write the text files of a group from the corpora of its members (VocADT, Appendix C).

    Returns the names of the written files, and facts for the card. No training sentence is or
    contains a held-out sentence, a test translation or a summary of any member, compared as in
    `contamination`. `seed` are the names that seed the draws.

    Parameters
    ----------
    settings
        The group's entry in the registry: `name`, `group` with its `shares` and `temperature` (see
        `shares_of`), and `train_sentences` and `train_characters`, the maximum size of all members
        together, divided by their shares of characters; without these, all text is used.
    members
        Language -> the folder of its corpus.
    folder
        Receives `mixture.json`, the shares; for each member `members/<language>/train.txt` and
        `heldout.txt`, with the same number of held-out sentences for each, so that the largest set
        does not dominate; `heldout.txt`, all of these in random order; `english.txt`, the distinct
        English sentences of all members; and empty task files, since a test belongs to one
        language.
    """
    folder, group = Path(folder), settings["group"]
    heldout = {name: list(read_part(place, "heldout")) for name, place in members.items()}
    held = (line for lines in heldout.values() for line in lines)
    tested = (test for place in members.values() for test in read_test_texts(Path(place)))
    tests = Overlap(chain(held, tested))
    every = {name: StoredLines.of_file(Path(place, "train.txt")) for name, place in members.items()}
    train = {name: lines.without(tests.__contains__) for name, lines in every.items()}
    sizes = {name: train[name].sizes for name in members}  # characters of each sentence
    for name, own in sizes.items():
        if not len(own):
            raise UserError(
                f"language {settings['name']}: all training text of '{name}' overlaps with test or "
                "held-out texts of a member; give it more text"
            )
    try:
        totals = {name: int(own.sum()) for name, own in sizes.items()}
        shares = shares_of(totals, group["shares"], group["temperature"])
    except UserError as error:
        raise UserError(f"language {settings['name']}: {error}") from None
    wanted = {key: settings.get(key) for key in ("train_sentences", "train_characters")}
    reduced: dict[str, dict[str, int]] = {}
    if any(wanted.values()):
        counts, whole = counts_of(sizes, shares, seed, *wanted.values())
        for key, most in wanted.items():
            if most is not None and whole[key] < most:
                reduced[key] = {"wanted": most, "taken": whole[key]}
        kept = {name: _drawn(train[name], counts[name], seed, name) for name in members}
    else:
        kept = train
    log_reduced(settings["name"], reduced)
    each = min(map(len, heldout.values()))
    heldout = {name: sentences[:each] for name, sentences in heldout.items()}
    english = dict.fromkeys(
        line for place in members.values() for line in read_part(place, "english")
    )
    parts = {
        "heldout": _shuffled([line for lines in heldout.values() for line in lines], seed, "held"),
        "english": _shuffled(list(english), seed, "english"),
    }
    for part, sentences in parts.items():
        write_lines(folder / f"{part}.txt", sentences)
    with replacing_folder(folder / MEMBERS) as written:
        for name, sentences in heldout.items():
            write_lines(written / name / "heldout.txt", sentences)
            write_lines(written / name / "train.txt", kept[name])
    write_json(folder / MIXTURE, shares)
    for task in (TRANSLATION, SUMMARIZATION):
        write_jsonl(folder / task, [])
    counted = {name: size_of(kept[name]) for name in members}
    logger.info(
        "%s: %s",
        settings["name"],
        ", ".join(f"{name} {own['sentences']}" for name, own in counted.items()),
    )
    facts = {
        "members": {
            name: {
                "share": shares[name],
                "train_sentences": counted[name]["sentences"],
                "of": len(train[name]),
                "kept_out_of_training": len(every[name]) - len(train[name]),
                "heldout_sentences": each,
            }
            for name in members
        },
        "reduced": reduced,
        "sizes": {
            "train": {key: sum(own[key] for own in counted.values()) for key in size_of(())},
            **{part: size_of(sentences) for part, sentences in parts.items()},
        },
    }
    files = [MIXTURE, *(f"{part}.txt" for part in parts), TRANSLATION, SUMMARIZATION]
    files += [f"{MEMBERS}/{name}/{part}.txt" for name in members for part in ("train", "heldout")]
    return files, facts


def shares_of(
    sizes: Mapping[str, int], shares: Mapping[str, float], temperature: float
) -> dict[str, float]:
    """The share of each language in the training text; they add up to one.

    `shares` are fixed shares of some or all languages, for example 1/n for English (VocADT,
    Appendix C). The other languages share the rest in proportion to size ** (1 / temperature),
    where the size is their number of characters: 1 is proportional, larger values favour small
    languages, infinity gives equal shares (Aharoni et al. 2019, §4).
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
    sizes: Mapping[str, np.ndarray],
    shares: Mapping[str, float],
    seed: tuple[str | int, ...],
    sentences: int | None = None,
    characters: int | None = None,
) -> tuple[dict[str, int], dict[str, int]]:
    """How many sentences of each language a mixture has, and the size of the largest mixture.

    The mixture has the given shares of characters, to within one sentence per language, is as large
    as both `sentences` and `characters` allow, and repeats nothing. The largest mixture ends when
    the text of one language is used up; its `train_sentences` and `train_characters` are returned.

    `sizes` are the numbers of characters of each sentence of each language, int64 [n]; sentences
    are taken in the random order of `_drawn`.
    """
    # The number of characters of the whole mixture at which each sentence is complete.
    ends = [
        np.cumsum(own[_order(len(own), seed, name)]) / shares[name] for name, own in sizes.items()
    ]
    # A sum must not lose a sentence to floating-point rounding.
    largest = min(own[-1] for own in ends) * (1 + ROUNDING)
    every = np.concatenate(ends)
    order = np.argsort(every, kind="stable")
    whole = int(np.searchsorted(every[order], largest, "right"))
    most = whole
    if characters is not None:
        most = min(most, int(np.searchsorted(every[order], characters * (1 + ROUNDING), "right")))
    if sentences is not None:
        most = min(most, sentences)
    owners = np.repeat(np.arange(len(ends)), [len(own) for own in ends])[order[:most]]
    counts = np.bincount(owners, minlength=len(ends)).tolist()
    return dict(zip(sizes, counts, strict=True)), {
        "train_sentences": whole,
        "train_characters": round(largest),
    }


def _order(count: int, seed: tuple[str | int, ...], name: str) -> np.ndarray:
    """The order in which sentences of a language are drawn."""
    return generator(*seed, "train", name).permutation(count)


def _drawn(train: StoredLines, count: int, seed: tuple[str | int, ...], name: str) -> StoredLines:
    """The first `count` sentences in the order of the draw, sorted in the order of the text."""
    return train.select(np.sort(_order(len(train), seed, name)[:count]))


def _shuffled(sentences: list[str], seed: tuple[str | int, ...], what: str) -> list[str]:
    order = generator(*seed, "order", what).permutation(len(sentences))
    return [sentences[place] for place in order]
