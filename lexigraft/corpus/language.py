"""The corpus of one language in the registry: read, clean, split, write and count its text."""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from lexigraft.artifacts.atomic import write_jsonl, write_lines
from lexigraft.corpus.cleaning import REMEMBERED, CleaningCounts, cleaned, cleaned_pairs
from lexigraft.corpus.contamination import Contamination
from lexigraft.corpus.loader import Pair, find_loader
from lexigraft.corpus.local_files import check_files
from lexigraft.corpus.readers import read_articles, read_pairs
from lexigraft.corpus.reading import draw_text, forget, read_some, sentence_splitter
from lexigraft.corpus.sampling import StoredLines
from lexigraft.corpus.split import Seed, Sizes, Split, log_reduced, split_corpus
from lexigraft.errors import UserError

logger = logging.getLogger(__name__)

# Maximum number of characters from which English sentences are drawn, if reading is limited.
_ENGLISH_CHARACTERS = 100_000_000
TRANSLATION = "tasks/translation.jsonl"
SUMMARIZATION = "tasks/summarization.jsonl"


def prepare_corpus(
    settings: Mapping[str, Any],
    folder: str | Path,
    seed: Seed,
    package: str | Path | None = None,
) -> tuple[list[str], dict[str, Any]]:
    """Write the text files of one language; returns their names, and facts for the card.

    `seed` are the names that seed the draws; `package` is the folder of the unpacked package, for
    texts in packages.

    `settings` is the language's entry in the registry. `folder` receives `train.txt`,
    `heldout.txt`, `english.txt` (one sentence per line), `tasks/translation.jsonl` (`id`, `source`,
    `target`) and `tasks/summarization.jsonl` (`id`, `source`, `reference`), which are empty without
    parallel text or articles.
    """
    folder, code = Path(folder), settings["code"]
    try:
        check_files(settings, code)
        split, counts, contamination = _read_and_split(settings, folder, seed, package)
    except UserError as error:
        raise UserError(f"language {settings['name']}: {error}") from None
    parts: dict[str, Iterable[str]] = {}
    for part in ("train", "heldout", "english"):
        parts[part] = getattr(split, part)
        write_lines(folder / f"{part}.txt", parts[part])
    for file, pairs, target_key in (
        (TRANSLATION, split.translation, "target"),
        (SUMMARIZATION, split.summarization, "reference"),
    ):
        rows = [
            {"id": f"{code}-{number:04d}", "source": source, target_key: target}
            for number, (source, target) in enumerate(pairs, start=1)
        ]
        write_jsonl(folder / file, rows)
    counted = map(len, (split.train, split.heldout, split.translation, split.summarization))
    text = "%s: %d training sentences, %d held-out sentences, %d translation pairs, %d articles"
    logger.info(text, settings["name"], *counted)
    log_reduced(settings["name"], split.reduced)
    parts["translation_targets"] = [target for _, target in split.translation]
    parts["articles"] = [article for article, _ in split.summarization]
    parts["summaries"] = [summary for _, summary in split.summarization]
    facts = {
        "cleaning": {part: asdict(count) for part, count in counts.items()},
        "contamination": contamination,
        "kept_out_of_training": split.kept_out,
        "reduced": split.reduced,
        "sizes": {part: size_of(sentences) for part, sentences in parts.items()},
    }
    forget(folder)
    return ["train.txt", "heldout.txt", "english.txt", TRANSLATION, SUMMARIZATION], facts


def read_test_texts(corpus: Path, sources: bool = False) -> Iterator[str]:
    """The target sides of a corpus's tests; with `sources`, also the English of translations."""
    for task, keys in (
        (TRANSLATION, ("source", "target") if sources else ("target",)),
        (SUMMARIZATION, ("reference",)),
    ):
        # Only "\n" ends a line: splitlines() would also split at U+2028 and the like.
        for line in (corpus / task).read_text(encoding="utf-8").split("\n"):
            if line:
                row = json.loads(line)
                yield from (row[key] for key in keys)


def size_of(sentences: Iterable[str]) -> dict[str, int]:
    """Number of sentences, characters and UTF-8 bytes."""
    if isinstance(sentences, StoredLines):
        return sentences.counts()
    sizes = {"sentences": 0, "characters": 0, "bytes": 0}
    for sentence in sentences:
        sizes["sentences"] += 1
        sizes["characters"] += len(sentence)
        sizes["bytes"] += len(sentence.encode())
    return sizes


def _read_and_split(
    settings: Mapping[str, Any], folder: Path, seed: Seed, package: str | Path | None
) -> tuple[Split, dict[str, CleaningCounts], dict[str, dict[str, Any]]]:
    """The parts, the cleaning counts of each text, and the tests of each set found in `train`."""
    minimum, repairs = settings["minimum_characters"], settings.get("repair", ())
    counts = {"text": CleaningCounts(), "english": CleaningCounts()}
    keys = {field.name for field in fields(Sizes)}
    sizes = Sizes(**{key: settings[key] for key in keys & settings.keys()})
    pairs: Iterable[Pair] = ()
    if settings.get("parallel"):
        count = counts["parallel"] = CleaningCounts()
        pairs = cleaned_pairs(read_pairs(settings["parallel"], package), count, repairs=repairs)
    articles: Iterable[Pair] = ()
    if settings.get("summarization"):
        count = counts["summarization"] = CleaningCounts()
        articles = read_articles(settings["summarization"])
        articles = cleaned_pairs(articles, count, paragraphs=True, repairs=repairs)
    english = _english(settings, seed, package)
    split = split_corpus(
        partial(draw_text, settings, folder, seed, counts["text"], package=package),
        pairs,
        cleaned(english, counts["english"], minimum, REMEMBERED, repairs),
        sizes,
        seed,
        articles,
    )
    tests = {"translation": split.translation, "summarization": split.summarization}
    overlap = Contamination({name: [text for _, text in pairs] for name, pairs in tests.items()})
    for sentence in split.train if any(tests.values()) else ():
        overlap.add(sentence)
    return split, counts, overlap.facts()


def _english(settings: Mapping[str, Any], seed: Seed, package: str | Path | None) -> Iterator[str]:
    """The `english` text or, without one, the English side of the parallel text."""
    english, limit = settings.get("english"), settings.get("read_characters")
    if settings.get("read_sentences"):
        limit = _ENGLISH_CHARACTERS
    pairs = english or settings.get("parallel")
    if not pairs:
        raise UserError(
            "there is no English text to measure forgetting on; set `english` or `parallel`"
        )
    if english:
        loader = find_loader(english["loader"])
        # A text in a package that its loader can read with the English originals is a translation.
        if not (loader.needs_package and loader.pairs):
            limit = limit and min(limit, _ENGLISH_CHARACTERS)
            texts = partial(read_some, english, limit, (*seed, "english"), package)
            return chain.from_iterable(map(sentence_splitter(settings, texts()), texts()))
    return (source for source, _ in read_pairs(pairs, package))
