"""The corpus of a group of languages: texts of its members and their shares, see `mixture`."""

import logging
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from lexigraft.artifacts.atomic import atomic_folder, write_json, write_jsonl, write_lines
from lexigraft.corpus.contamination import Overlap
from lexigraft.corpus.language import SUMMARIZATION, TRANSLATION, read_test_texts, size_of
from lexigraft.corpus.mixture import MEMBERS, MIXTURE, ROUNDING, check_shares, read_part
from lexigraft.corpus.sampling import StoredLines
from lexigraft.corpus.split import Reductions, Seed, log_reduced
from lexigraft.errors import UserError
from lexigraft.randomness import generator

logger = logging.getLogger(__name__)


def mix_corpora(
    settings: Mapping[str, Any], members: Mapping[str, str | Path], folder: str | Path, seed: Seed
) -> tuple[list[str], dict[str, Any]]:
    """Write the text files of a group from the corpora of its members (VocADT, Appendix C).

    Returns the names of the written files, and facts for the card. No training sentence is or
    contains a held-out sentence, a test translation or a summary of any member. `settings` is the
    group's entry in the registry, where `train_sentences` and `train_characters` are the maximum
    size of all members together; `members` maps languages to folders of corpora; `seed` are the
    names that seed the draws.

    `folder` receives `mixture.json`, the shares; for each member `members/<language>/train.txt` and
    equally many sentences in `heldout.txt`, so that the largest set does not dominate;
    `heldout.txt`, all of these in random order; `english.txt`, the distinct English sentences of
    all members; and empty task files, since a test belongs to one language.
    """
    name, folder, group = settings["name"], Path(folder), settings["group"]
    heldout = {member: list(read_part(corpus, "heldout")) for member, corpus in members.items()}
    tested = (read_test_texts(Path(corpus)) for corpus in members.values())
    tests = Overlap(chain(chain.from_iterable(heldout.values()), *tested))
    texts = {
        member: StoredLines.of_file(Path(corpus, "train.txt")) for member, corpus in members.items()
    }
    train = {member: lines.without(tests.__contains__) for member, lines in texts.items()}
    sizes = {member: lines.sizes for member, lines in train.items()}  # characters of each sentence
    try:
        for member, lines in train.items():
            if not len(lines):
                raise UserError(
                    f"all training text of '{member}' overlaps with test or held-out texts of a "
                    "member; give it more text"
                )
        totals = {member: int(characters.sum()) for member, characters in sizes.items()}
        shares = shares_of(totals, group["shares"], group["temperature"])
    except UserError as error:
        raise UserError(f"language {name}: {error}") from None
    limits = {key: settings.get(key) for key in ("train_sentences", "train_characters")}
    mixed, reduced = dict(train), Reductions()
    if any(limits.values()):
        counts, largest = counts_of(sizes, shares, seed, *limits.values())
        for key, limit in limits.items():
            if limit is not None and largest[key] < limit:
                reduced[key] = {"wanted": limit, "taken": largest[key]}
        for member, lines in train.items():
            drawn = _order(len(lines), seed, member)[: counts[member]]
            mixed[member] = lines.select(np.sort(drawn))
    log_reduced(name, reduced)
    heldout_size = min(map(len, heldout.values()))
    heldout = {member: sentences[:heldout_size] for member, sentences in heldout.items()}
    english = dict.fromkeys(
        line for corpus in members.values() for line in read_part(corpus, "english")
    )
    parts = {
        "heldout": _shuffled(list(chain.from_iterable(heldout.values())), seed, "held"),
        "english": _shuffled(list(english), seed, "english"),
    }
    for part, sentences in parts.items():
        write_lines(folder / f"{part}.txt", sentences)
    with atomic_folder(folder / MEMBERS) as temporary:
        for member, sentences in heldout.items():
            write_lines(temporary / member / "heldout.txt", sentences)
            write_lines(temporary / member / "train.txt", mixed[member])
    write_json(folder / MIXTURE, shares)
    for task in (TRANSLATION, SUMMARIZATION):
        write_jsonl(folder / task, [])
    counted = {member: size_of(lines) for member, lines in mixed.items()}
    described = ", ".join(f"{member} {size['sentences']}" for member, size in counted.items())
    logger.info("%s: %s", name, described)
    facts = {
        "members": {
            member: {
                "share": shares[member],
                "train_sentences": counted[member]["sentences"],
                "of": len(train[member]),
                "kept_out_of_training": len(texts[member]) - len(train[member]),
                "heldout_sentences": heldout_size,
            }
            for member in members
        },
        "reduced": reduced,
        "sizes": {
            "train": {key: sum(size[key] for size in counted.values()) for key in size_of(())},
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
    unassigned = 1 - sum(shares.values())
    return {
        name: shares[name] if name in shares else unassigned * weights[name] / sum(weights.values())
        for name in sizes
    }


def counts_of(
    sizes: Mapping[str, np.ndarray],
    shares: Mapping[str, float],
    seed: Seed,
    sentences: int | None = None,
    characters: int | None = None,
) -> tuple[dict[str, int], dict[str, int]]:
    """How many sentences of each language a mixture has, and the size of the largest mixture.

    The mixture has the given shares of characters, to within one sentence per language, is as large
    as both `sentences` and `characters` allow, and repeats nothing. The largest mixture ends when
    the text of one language is used up. `sizes` are the numbers of characters of each sentence of
    each language, int64 [n]; sentences are taken in the random order of `_order`.
    """
    # The number of characters of the whole mixture at which each sentence is complete.
    ends = [
        np.cumsum(lengths[_order(len(lengths), seed, name)]) / shares[name]
        for name, lengths in sizes.items()
    ]
    # A sum must not lose a sentence to floating-point rounding.
    largest = min(language_ends[-1] for language_ends in ends) * (1 + ROUNDING)
    all_ends = np.concatenate(ends)
    order = np.argsort(all_ends, kind="stable")
    largest_count = count = int(np.searchsorted(all_ends[order], largest, "right"))
    if characters is not None:
        limit = characters * (1 + ROUNDING)
        count = min(count, int(np.searchsorted(all_ends[order], limit, "right")))
    if sentences is not None:
        count = min(count, sentences)
    languages = np.repeat(np.arange(len(ends)), list(map(len, ends)))[order[:count]]
    counts = np.bincount(languages, minlength=len(ends)).tolist()
    totals = {"train_sentences": largest_count, "train_characters": round(largest)}
    return dict(zip(sizes, counts, strict=True)), totals


def _order(count: int, seed: Seed, name: str) -> np.ndarray:
    """The order in which sentences of a language are drawn."""
    return generator(*seed, "train", name).permutation(count)


def _shuffled(sentences: list[str], seed: Seed, part: str) -> list[str]:
    order = generator(*seed, "order", part).permutation(len(sentences))
    return [sentences[index] for index in order]
