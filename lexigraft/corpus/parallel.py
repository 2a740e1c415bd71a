"""Training samples from parallel text: each pair in both directions, selected by quality.

ALMA (Xu et al. 2024) trains a model on both directions at once. VocADT (Han et al. 2025, §3.4 and
§5.3) does so with the 15,000 pairs per language with the highest LASER3 scores.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lexigraft.corpus.alma import ENGLISH, translation_prompt
from lexigraft.corpus.cleaning import CleaningCounts, cleaned_pairs
from lexigraft.corpus.contamination import Overlap
from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.readers import (
    Pair,
    read_aligned_files,
    read_pairs,
    read_rows,
    read_tsv,
    text_of,
    value_of,
)
from lexigraft.corpus.sampling import StreamSample
from lexigraft.errors import UserError


@dataclass
class Selection:
    """Dropped pairs: before cleaning `without_quality` (missing, or not a number) and
    `below_minimum`; of those drawn `like_tests`, which contain a test."""

    without_quality: int = 0
    below_minimum: int = 0
    like_tests: int = 0


def translations(
    settings: Mapping[str, Any],
    seed: tuple[str | int, ...],
    tests: Overlap,
    package: str | Path | None = None,
) -> tuple[list[Pair], dict[str, Any]]:
    """(prompt, answer) of each selected pair, from English and into English.

    Parameters
    ----------
    settings
        `language`, its English name; `text`, see `read_scored_pairs`; `minimum_quality`, below
        which a pair is dropped, or None; `pairs`, their number, or None for all: the best ones if
        the text has qualities, a random sample otherwise.
    seed
        The names that seed the draw.
    tests
        Texts that neither side of a pair may contain.
    package
        The folder of the unpacked package, for catalogues.

    Returns
    -------
    samples, facts
        The facts hold the counts of cleaning and selection.
    """
    cleaning, selection = CleaningCounts(), Selection()
    wanted = settings["pairs"]
    # Twice as many as needed, since those that contain a test are removed afterwards.
    sample = StreamSample[tuple[float, Pair]](
        None if wanted is None else 2 * wanted, (*seed, "pairs")
    )
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
            f"good and contain no test ({dropped}); lower pairs or minimum_quality, or give more "
            "text"
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
    """Stream (English, translation) pairs, each with its quality as found in the text.

    Parameters
    ----------
    settings
        As for `read_pairs`, with the location of the quality: `quality_column` for `tsv`, `parquet`
        and `datasets`; `quality_field` for `jsonl`; `quality` for `files`, a file with one number
        per line. Without it, every quality is None. Columns of `tsv` are numbered from 1; English
        and the translation are in `source_column` and `target_column`, by default 1 and 2.
    package
        The folder of the unpacked package, for catalogues.
    """
    loader = settings["loader"]
    column = settings.get("quality_column", settings.get("quality_field"))
    if loader == "files" and settings.get("quality"):
        yield from _scored_files(settings)
    elif loader == "tsv":
        places = (settings.get("source_column", 1), settings.get("target_column", 2))
        yield from read_tsv(settings["path"], *places, column)
    elif column is None:
        yield from ((pair, None) for pair in read_pairs(settings, package))
    else:
        kind = "field" if loader == "jsonl" else "column"
        source, target = settings[f"source_{kind}"], settings[f"target_{kind}"]
        for row, where in read_rows(settings, [source, target, column]):
            pair = (text_of(row, source, where), text_of(row, target, where))
            yield pair, value_of(row, column, where)


def _scored_files(settings: Mapping[str, Any]) -> Iterator[tuple[Pair, str]]:
    pairs = read_aligned_files(settings["source"], settings["target"])
    try:
        yield from zip(pairs, read_lines(settings["quality"]), strict=True)
    except ValueError:
        raise UserError(
            f"{settings['quality']}: has not as many lines as {settings['source']}; it must have "
            "one number per pair"
        ) from None


def _good(
    settings: Mapping[str, Any], selection: Selection, package: str | Path | None
) -> Iterator[tuple[Pair, float]]:
    """Pairs of sufficient quality, with their qualities as numbers (0 if the text has none)."""
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
