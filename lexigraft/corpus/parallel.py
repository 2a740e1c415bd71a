"""Bitext as prompts with answers: each pair in both directions, the best ones where that is known.

ALMA (Xu et al. 2024) trains a model on both directions at once; paper 001, §3.4 and §4, does so
with the 15,000 pairs of a language that have the highest scores.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lexigraft.corpus.alma import ENGLISH, translation_prompt
from lexigraft.corpus.cleaning import Counts, cleaned_pairs
from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.loaders import read_pairs, read_rows
from lexigraft.corpus.overlap import Overlap
from lexigraft.corpus.readers import Pair, read_aligned_files, text_of, value_of
from lexigraft.corpus.sampling import Sample
from lexigraft.errors import UserError


@dataclass
class Selection:
    """Pairs that were dropped: before cleaning `without_quality` (none is written, or no number)
    and `below_minimum`; of those drawn `like_tests`, which give away a test."""

    without_quality: int = 0
    below_minimum: int = 0
    like_tests: int = 0


def translations(
    settings: Mapping[str, Any],
    seed: tuple[str | int, ...],
    tests: Overlap,
    package: str | Path | None = None,
) -> tuple[list[Pair], dict[str, Any]]:
    """(prompt, answer) of each chosen pair, from English and into English.

    Parameters
    ----------
    settings
        `language`, its English name; `text`, see `read_scored_pairs`; `minimum_quality`, below
        which a pair is dropped, or None; `pairs`, how many, or None for all: the best ones where
        the text has qualities, a random sample otherwise.
    seed
        The names that seed the draw.
    tests
        Texts that no pair may hold on either side.
    package
        The folder of the unpacked package, for catalogues.

    Returns
    -------
    samples, facts
        What cleaning and selection did is in the facts.

    Raises
    ------
    UserError
        The text cannot be read, or has fewer pairs than asked for.
    """
    cleaning, selection = Counts(), Selection()
    wanted = settings["pairs"]
    # Twice as many as needed: those that give a test away are taken out afterwards.
    sample = Sample[tuple[float, Pair]](None if wanted is None else 2 * wanted, (*seed, "pairs"))
    for pair, quality in _good(settings, selection, package):
        for source, target in cleaned_pairs([pair], cleaning):
            sample.add((quality, (source, target)), f"{source}\n{target}", score=quality)
    drawn = sorted(sample.shuffled(), key=lambda scored: -scored[0])
    chosen = [pair for _, pair in drawn if not any(side in tests for side in pair)]
    selection.like_tests = len(drawn) - len(chosen)
    if len(chosen) < (wanted or 1):
        dropped = ", ".join(f"{key} {count}" for key, count in asdict(selection).items())
        raise UserError(
            f"pairs: asks for {wanted or 'all'}, but the text has only {len(chosen)} that are "
            f"good and no test ({dropped}); lower pairs or minimum_quality, or give more text"
        )
    chosen = chosen[:wanted]
    language = settings["language"]
    samples = [
        (translation_prompt(one, other, source), f" {target}")
        for pair in chosen
        for one, other, source, target in (
            (ENGLISH, language, *pair),
            (language, ENGLISH, *reversed(pair)),
        )
    ]
    facts = {"pairs": len(chosen), "cleaning": asdict(cleaning), "selection": asdict(selection)}
    return samples, facts


def read_scored_pairs(
    settings: Mapping[str, Any], package: str | Path | None = None
) -> Iterator[tuple[Pair, Any]]:
    """Stream (English, translation) pairs, each with the quality that is written beside it.

    Parameters
    ----------
    settings
        What `read_pairs` takes, and where the quality is: `quality_column` of `tsv`, `parquet` and
        `datasets`; `quality_field` of `jsonl`; `quality` of `files`, a file with a number a line.
        Without it, every quality is None. Columns of `tsv` are numbered from 1; `source_column`
        and `target_column` say where English and the translation are, else in the first two.
    package
        The folder of the unpacked package, for catalogues.
    """
    loader = settings["loader"]
    column = settings.get("quality_column", settings.get("quality_field"))
    if loader == "files" and settings.get("quality"):
        yield from _scored_files(settings)
    elif loader == "tsv":
        yield from _columns(settings, column)
    elif column is None:
        yield from ((pair, None) for pair in read_pairs(settings, package))
    else:
        kind = "field" if loader == "jsonl" else "column"
        source, target = settings[f"source_{kind}"], settings[f"target_{kind}"]
        for row, where in read_rows(settings, [source, target, column]):
            pair = (text_of(row, source, where), text_of(row, target, where))
            yield pair, value_of(row, column, where)


def _columns(settings: Mapping[str, Any], quality: int | None) -> Iterator[tuple[Pair, Any]]:
    places = (settings.get("source_column", 1), settings.get("target_column", 2))
    for number, line in enumerate(read_lines(settings["path"]), start=1):
        if line.strip():
            columns = line.split("\t")
            if len(columns) < max(places):
                raise UserError(
                    f"{settings['path']}: line {number} has {len(columns)} columns, of which "
                    f"{places[0]} and {places[1]} are asked for"
                )
            source, target = (columns[place - 1] for place in places)
            if quality is None or len(columns) < quality:
                yield (source, target), None
            else:
                yield (source, target), columns[quality - 1]


def _scored_files(settings: Mapping[str, Any]) -> Iterator[tuple[Pair, str]]:
    pairs = read_aligned_files(settings["source"], settings["target"])
    try:
        yield from zip(pairs, read_lines(settings["quality"]), strict=True)
    except ValueError:
        raise UserError(
            f"{settings['quality']}: has not as many lines as {settings['source']}; it must have a "
            "number for each pair"
        ) from None


def _good(
    settings: Mapping[str, Any], selection: Selection, package: str | Path | None
) -> Iterator[tuple[Pair, float]]:
    """Pairs with their qualities as numbers, 0 where the text has none, without the bad ones."""
    from tqdm import tqdm

    text, minimum = settings["text"], settings["minimum_quality"]
    scored = any(key.startswith("quality") for key in text)
    pairs = read_scored_pairs(text, package)
    name = f"read {settings['language']} and English"
    for pair, written in tqdm(pairs, desc=name, unit="pair", unit_scale=True, disable=None):
        quality = _number(written) if scored else 0.0
        if quality is None:
            selection.without_quality += 1
        elif minimum is not None and quality < minimum:
            selection.below_minimum += 1
        else:
            yield pair, quality


def _number(written: Any) -> float | None:
    try:
        number = float(written)
    except (TypeError, ValueError):
        return None
    return None if math.isnan(number) else number
