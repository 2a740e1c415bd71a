"""Corpus of a group of languages: training text mixed by shares, held-out text per member."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lexigraft.atomic import replacing_folder, write_jsonl, write_lines
from lexigraft.corpus.contamination import Overlap, letters
from lexigraft.corpus.language import SUMMARIZATION, TRANSLATION, read_test_texts, size_of
from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.mixing import counts_of, shares_of
from lexigraft.errors import UserError
from lexigraft.randomness import generator

logger = logging.getLogger(__name__)

MEMBERS = "members"


def mix_corpora(
    settings: Mapping[str, Any],
    members: Mapping[str, str | Path],
    folder: str | Path,
    seed: tuple[str | int, ...],
) -> tuple[list[str], dict[str, Any]]:
    """Write the text files of a group from the corpora of its members (VocADT, Appendix C).

    Parameters
    ----------
    settings
        The group's entry in the registry: `name`, `train_sentences` (None: as many as the shares
        allow without repeating a sentence) and `group` with its `shares` and `temperature`, see
        `mixing.shares_of`.
    members
        Language -> the folder of its corpus.
    folder
        Receives `train.txt`, sentences of all members in random order; `heldout.txt` and
        `members/<language>/heldout.txt`, equally many sentences of each, so that the largest set
        does not dominate; `english.txt`, the distinct English sentences of all; and empty task
        files, since a test belongs to one language.
    seed
        The names that seed the draws.

    Returns
    -------
    files, facts
        The names of the files written, and facts for the card. No training sentence has the letters
        of a held-out sentence of any member, or contains a test translation or summary of any.
    """
    folder, group = Path(folder), settings["group"]
    train, kept_out = _trainable(members)
    try:
        sizes = {name: len(sentences) for name, sentences in train.items()}
        shares = shares_of(sizes, group["shares"], group["temperature"])
        counts = counts_of(sizes, shares, settings["train_sentences"])
    except UserError as error:
        raise UserError(f"language {settings['name']}: {error}") from None
    mixed = [
        train[name][place]
        for name, count in counts.items()
        for place in generator(*seed, "train", name).choice(sizes[name], count, replace=False)
    ]
    heldout = {name: list(read_lines(Path(members[name]) / "heldout.txt")) for name in members}
    each = min(map(len, heldout.values()))
    heldout = {name: sentences[:each] for name, sentences in heldout.items()}
    english = dict.fromkeys(line for name in members for line in _lines(members[name], "english"))
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
        "sizes": {part: size_of(sentences) for part, sentences in parts.items()},
    }
    files = [*(f"{part}.txt" for part in parts), TRANSLATION, SUMMARIZATION]
    return [*files, *(f"{MEMBERS}/{name}/heldout.txt" for name in members)], facts


def _trainable(
    members: Mapping[str, str | Path],
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Training sentences of each member without any member's tests, and how many were excluded."""
    held = {letters(line) for folder in members.values() for line in _lines(folder, "heldout")}
    tests = Overlap(test for folder in members.values() for test in read_test_texts(Path(folder)))
    train: dict[str, list[str]] = {}
    kept_out: dict[str, int] = {}
    for name, folder in members.items():
        every = _lines(folder, "train")
        train[name] = [line for line in every if letters(line) not in held and line not in tests]
        kept_out[name] = len(every) - len(train[name])
    return train, kept_out


def _lines(folder: str | Path, part: str) -> list[str]:
    return list(read_lines(Path(folder) / f"{part}.txt"))


def _shuffled(sentences: list[str], seed: tuple[str | int, ...], what: str) -> list[str]:
    order = generator(*seed, "order", what).permutation(len(sentences))
    return [sentences[place] for place in order]
