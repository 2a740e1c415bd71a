"""The model and the text of benchmarks: those of the default study, or the user's own."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lexigraft.artifacts.atomic import write_lines
from lexigraft.bundled.packages import fetch_package
from lexigraft.corpus.language import prepare_corpus
from lexigraft.evaluation.texts import lines_of
from lexigraft.settings import plain
from lexigraft.source.model import open_source
from lexigraft.source.preparation import prepare_source
from workflow.config.registries import ROOT, entries_of

SOURCE, LANGUAGE = "smollm2-135m", "te-kolibri"  # of config/config.yaml
CACHE = ROOT / ".cache"
PACKAGES = CACHE / "packages"


@dataclass(frozen=True)
class Inputs:
    """A model folder, a file with one sentence per line, and their description for the record."""

    source: str
    text: str
    facts: dict[str, Any]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `opened` reads."""
    parser.add_argument("--source", type=Path, help=f"a model's folder; by default {SOURCE}")
    parser.add_argument(
        "--text", type=Path, help=f"a file with one sentence per line; by default {LANGUAGE}"
    )
    parser.add_argument("--lines", type=int, help="use only the first N lines", metavar="N")


@contextmanager
def opened(options: argparse.Namespace) -> Iterator[Inputs]:
    """The inputs that the options name, available within the context."""
    with TemporaryDirectory() as place:
        source, text = options.source, options.text
        if source is None:
            source = prepared_source(SOURCE, Path(place, "source"))
        if text is None:
            text = prepared_corpus(LANGUAGE, Path(place, "corpus")) / "train.txt"
        lines = lines_of(text)[: options.lines]
        taken = Path(place, "text.txt")
        write_lines(taken, lines)
        facts = {
            "source": options.source.name if options.source else SOURCE,
            "text": options.text.name if options.text else LANGUAGE,
            "lines": len(lines),
            "kilobytes": round(taken.stat().st_size / 1e3),
        }
        yield Inputs(str(source), str(taken), facts)


def prepared_source(name: str, folder: Path, packages: Path = PACKAGES) -> Path:
    """Prepare a source of the registry, as the workflow does; return the model's folder."""
    entry = entries_of("sources")[name]
    prepare_source(plain(entry), folder, _package(entry.package, packages))
    return open_source(folder).folder


def prepared_corpus(name: str, folder: Path, packages: Path = PACKAGES) -> Path:
    """Prepare the corpus of a language of the registry, as the workflow does."""
    entry = entries_of("languages")[name]
    package = _package(entry.text.package, packages)
    prepare_corpus(plain(entry), folder, ("benchmark",), package)
    return folder


def _package(name: str, packages: Path) -> Path:
    settings = {"name": name} | plain(entries_of("packages")[name])
    return fetch_package(**settings, into=packages / f"{name}-{settings['version']}")
