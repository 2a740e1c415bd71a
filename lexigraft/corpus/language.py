"""The corpus of one language in the registry: read, clean, split, write and count its text."""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from lexigraft.artifacts.atomic import write_jsonl, write_lines
from lexigraft.corpus.cleaning import REMEMBERED, CleaningCounts, cleaned, cleaned_pairs
from lexigraft.corpus.contamination import Contamination, Tests
from lexigraft.corpus.loader import Pair, find_loader
from lexigraft.corpus.local_files import check_files
from lexigraft.corpus.readers import read_articles, read_pairs, read_sentences
from lexigraft.corpus.reading import draw_text, forget, read_some
from lexigraft.corpus.split import Sizes, Split, log_reduced, split_corpus
from lexigraft.corpus.stored_lines import StoredLines
from lexigraft.errors import UserError

logger = logging.getLogger(__name__)

# Maximum number of characters from which English sentences are drawn, if reading is limited.
_ENGLISH_CHARACTERS = 100_000_000
TRANSLATION = "tasks/translation.jsonl"
SUMMARIZATION = "tasks/summarization.jsonl"


def prepare_corpus(
    settings: Mapping[str, Any],
    folder: str | Path,
    seed: tuple[str | int, ...],
    package: str | Path | None = None,
) -> tuple[list[str], dict[str, Any]]:
    """Write the text files of one language; returns their names, and facts for the card.

    The facts are counts of cleaning, tests found in the training text, sizes that the text does not
    reach (`reduced`), and the size of each file. `seed` are the names that seed the draws;
    `package` is the folder of the unpacked package, for catalogues.

    Parameters
    ----------
    settings
        The language's entry in the registry: `name`, `code`, `script`, `text`, `parallel`,
        `english`, `summarization`, `minimum_characters`, `read_characters` and the fields of
        `split.Sizes`; `repair`, a subset of `cleaning.REPAIRS`; `contamination`: `tests`, name ->
        settings of a text, and `drop`, whether training sentences that contain such a test or a
        piece of it are dropped or only counted.
    folder
        Receives `train.txt`, `heldout.txt`, `english.txt` (one sentence per line),
        `tasks/translation.jsonl` (`id`, `source`, `target`) and `tasks/summarization.jsonl`
        (`id`, `source`, `reference`), which are empty without parallel text or articles.
    """
    folder, code = Path(folder), settings["code"]
    try:
        check_files(settings, code)
        split, counts, found = _read_and_split(settings, folder, seed, package)
    except UserError as error:
        raise UserError(f"language {settings['name']}: {error}") from None
    parts: dict[str, Iterable[str]] = {
        "train": split.train,
        "heldout": split.heldout,
        "english": split.english,
    }
    for part, sentences in parts.items():
        write_lines(folder / f"{part}.txt", sentences)
    write_jsonl(folder / TRANSLATION, _tasks(split.translation, code, "target"))
    write_jsonl(folder / SUMMARIZATION, _tasks(split.summarization, code, "reference"))
    counted = (split.train, split.heldout, split.translation, split.summarization)
    logger.info(
        "%s: %d training sentences, %d held-out sentences, %d translation pairs, %d articles",
        settings["name"],
        *(len(part) for part in counted),
    )
    log_reduced(settings["name"], split.reduced)
    parts["translation_targets"] = [target for _, target in split.translation]
    parts["articles"] = [article for article, _ in split.summarization]
    parts["summaries"] = [summary for _, summary in split.summarization]
    facts = {
        "cleaning": {part: asdict(count) for part, count in counts.items()},
        "contamination": found,
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
    settings: Mapping[str, Any],
    folder: Path,
    seed: tuple[str | int, ...],
    package: str | Path | None,
) -> tuple[Split, dict[str, CleaningCounts], dict[str, dict[str, Any]]]:
    """The parts, the cleaning counts of each text, and the tests of each set found in `train`."""
    minimum, repairs = settings["minimum_characters"], settings.get("repair", ())
    counts = {"text": CleaningCounts(), "english": CleaningCounts()}
    known = {field.name for field in fields(Sizes)}
    sizes = Sizes(**{key: settings[key] for key in known & settings.keys()})
    pairs: Iterable[Pair] = ()
    if settings.get("parallel"):
        read = read_pairs(settings["parallel"], package)
        counts["parallel"] = CleaningCounts()
        pairs = cleaned_pairs(read, counts["parallel"], repairs=repairs)
    articles: Iterable[Pair] = ()
    if settings.get("summarization"):
        read = read_articles(settings["summarization"])
        counts["summarization"] = CleaningCounts()
        articles = cleaned_pairs(read, counts["summarization"], paragraphs=True, repairs=repairs)
    contamination = settings.get("contamination", {})
    tests: dict[str, list[str]] = {}
    for name, text in contamination.get("tests", {}).items():
        count = counts[f"tests.{name}"] = CleaningCounts()
        tests[name] = list(cleaned(read_sentences(text), count, repairs=repairs))
    dropped: Tests = Contamination(tests) if contamination.get("drop") else ()

    def sample(lines: int | None, characters: int | None) -> StoredLines:
        return draw_text(settings, folder, seed, counts["text"], lines, characters, package)

    english = _english(settings, seed, package)
    english = cleaned(english, counts["english"], minimum, REMEMBERED, repairs)
    split = split_corpus(sample, pairs, english, sizes, seed, articles, dropped)
    tests["translation"] = [target for _, target in split.translation]
    tests["summarization"] = [summary for _, summary in split.summarization]
    found = Contamination(tests)
    for sentence in split.train if any(tests.values()) else ():
        found.add(sentence)
    return split, counts, found.facts()


def _english(
    settings: Mapping[str, Any], seed: tuple[str | int, ...], package: str | Path | None
) -> Iterator[str]:
    """The `english` text or, without one, the English side of the parallel text."""
    own, most = settings.get("english"), settings.get("read_characters")
    if own and not _has_originals(own):
        most = most and min(most, _ENGLISH_CHARACTERS)
        return read_some(own, most, (*seed, "english"), package)
    parallel = own or settings.get("parallel")
    if parallel:
        return (source for source, _ in read_pairs(parallel, package))
    raise UserError(
        "there is no English text to measure forgetting on; set `english` or `parallel`"
    )


def _has_originals(text: Mapping[str, Any]) -> bool:
    """Whether a text is a translation that its loader reads with the English originals."""
    loader = find_loader(text["loader"])
    return loader.needs_package and bool(loader.pairs)


def _tasks(pairs: list[Pair], code: str, target_key: str) -> list[dict[str, str]]:
    return [
        {"id": f"{code}-{number:04d}", "source": source, target_key: target}
        for number, (source, target) in enumerate(pairs, start=1)
    ]
