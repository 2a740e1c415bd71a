"""Build the report of a study: read, compute, and write its items, one page and a summary."""

import logging
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lexigraft.artifacts.atomic import write_json
from lexigraft.report import style
from lexigraft.report.figures.new_tokens import described
from lexigraft.report.findings import caveats, finding_numbers, findings
from lexigraft.report.fonts import open_fonts
from lexigraft.report.formats import write_table, write_text
from lexigraft.report.items import GROUPS, Item, load, read_items
from lexigraft.report.names import listed, source_name
from lexigraft.report.page import Figure, Page, report_document
from lexigraft.report.records import read_study
from lexigraft.report.rendering import document
from lexigraft.report.sample_outputs import sample_outputs
from lexigraft.report.study import StudyResults
from lexigraft.report.table import Table, number
from lexigraft.report.tables.texts import text_caveats

logger = logging.getLogger(__name__)

_PAGE = "report.html"
_PAGE_CAPTION = (
    "The whole study on one page: findings, caveats, figures, tables, sample outputs with their "
    "references, and how the study was run. The file is self-contained."
)
# Numbers in the cards of training: column, name, scale, unit and decimals.
_NUMBERS = (
    ("steps", "Steps per cell", 1, "", 0),
    ("tokens", "Training tokens per cell", 1, "", 0),
    ("trained_parameters", "Trained parameters", 1, "", 0),
    ("total_parameters", "Parameters", 1, "", 0),
    ("seconds", "Training time per cell", 60, " min", 1),
    ("share_of_peak", "Share of the hardware's peak speed", 0.01, " %", 0),
    ("peak_memory_bytes", "Peak memory", 1_000_000, " MB", 0),
)
_WORDS = (("device", "Hardware"), ("precision", "Precision"), ("threads", "Threads"))


def build_report(
    settings: dict[str, Any], inputs: dict[str, Any], outputs: dict[str, Any]
) -> dict[str, Any]:
    """Write the report of a study; returns the content of `summary.json`.

    Raises a UserError if there are no records, one is damaged, or an item is unknown.

    Parameters
    ----------
    settings
        `study` (name), `title`, `reference` (`{"strategy": …}` under which initializers are
        compared), `sources` (name -> its origin), `items` (the argument of
        `lexigraft.report.items.read_items`).
    inputs
        `records`, `learned`, `checkpoints`, `fragmentation`, `tokenizers`, `alignment` and
        `contamination`: paths of records. `training` and `initialization`: folder -> its axes by
        name and a `seed` (None for an initializer that serves all seeds). `corpora`: language ->
        card. `planned`: `(language, task)` of all planned records. `languages`: name -> registry
        entry. `published`: files with the numbers of papers. `fonts`: a folder of fonts or None.
        `exports`: folder of a training -> the Snakemake target that exports it, and `snakemake`:
        further arguments of that command. `circumstances`: further facts for the page about how the
        report was built, `(what, value)`.
    outputs
        `folder`: receives `tables/`, `figures/`, `captions/`, `report.html`, `summary.json`, and a
        `.md` and `.html` file for each page.
    """
    items = read_items(settings.get("items") or [])
    study = read_study(settings, inputs)
    fonts = open_fonts(inputs.get("fonts"))
    folder = Path(outputs["folder"])
    warnings = [*caveats(study), *text_caveats(study)]
    # Items also name initializers without scores of their own: aliases, and unfinished cells.
    named = (name for item in items for name in item.where.get("initializer", ()))
    look = style.Look(tuple(dict.fromkeys([*study.initializers, *named])), fonts)
    with style.look(fonts):
        shown, omitted = _write_items(items, study, _Writer(folder, look, warnings))
    numbers = finding_numbers(study)
    found = findings(numbers)
    samples = sample_outputs(study)
    # Texts in other scripts need fonts.
    embedded = fonts.embedded(text.text for group in samples for row in group.rows for text in row)
    if fonts.missing:
        scripts = ", ".join(sorted(fonts.missing))
        warnings.append(f"No available font covers {scripts}; such text may appear as boxes.")
    result = {
        "study": study.name,
        "title": study.title,
        "reference_strategy": study.reference_strategy,
        "seeds": study.seeds,
        "languages": numbers,
        "findings": [f"{study.language(f.language)}: {f.text}" for f in found],
        "recommendations": [one for _, page in shown["pages"] for one in page.numbers],
        "caveats": warnings,
        "new_tokens": described(study),
        "omitted": omitted,
    }
    page = report_document(
        study.title,
        embedded,
        lead=_lead(study),
        numbers=numbers,
        findings=found,
        caveats=warnings,
        samples=samples,
        facts=[*_facts(study, settings), *inputs.get("circumstances", ())],
        omitted=omitted,
        **shown,
    )
    write_text(folder / _PAGE, page)
    write_json(folder / "summary.json", result)
    counts = len(shown["tables"]), len(shown["figures"])
    logger.info("%s: %d tables, %d figures", folder / _PAGE, *counts)
    return result


@dataclass(frozen=True)
class _Writer:
    """Writes one item in all its formats; returns its content for the page, or None if empty."""

    folder: Path
    look: style.Look
    caveats: list[str]

    def pages(self, item: Item, part: StudyResults) -> tuple[str, Page] | None:
        title = item.title or f"{item.label}: {part.title}"
        page = load(item.kind).build(part, title, self.caveats)
        write_text(self.folder / f"{item.name}.md", page.markdown)
        alone = document(title, Markup("<h1>{}</h1>\n{}").format(title, page.body))
        write_text(self.folder / f"{item.name}.html", alone)
        return (item.label, page) if page.numbers else None

    def tables(self, item: Item, part: StudyResults) -> Table | None:
        import pandas

        kind, found = load(item.kind).KIND, load(item.kind).build(part)
        if found is None:
            empty = (f"Empty: {kind.empty}.",)
            table = Table(("Model",), (), (), pandas.DataFrame(), empty, item.label, item.name)
        else:
            title = item.title or found.title or kind.title
            notes = [*found.notes, *filter(None, [part.alias_note()])]
            table = replace(found, name=item.name, title=title, notes=notes)
        write_table(table, self.folder / "tables")
        return None if found is None else table

    def figures(self, item: Item, part: StudyResults) -> Figure | None:
        kind, folder = load(item.kind).KIND, self.folder / "figures"
        figure = load(item.kind).draw(part, self.look)
        if figure is None:
            style.save(style.message(f"Nothing to show: {kind.empty}."), folder, item.name)
            return None
        style.save(figure, folder, item.name)
        svg = (folder / f"{item.name}.svg").read_text(encoding="utf-8")
        return Figure(item.name, svg, _caption(item, part), item.title or kind.title, kind.rank)


def _write_items(
    items: list[Item], study: StudyResults, writer: _Writer
) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Write every item, and its caption for Snakemake's own report in reStructuredText.

    Returns the content of each group, and the reasons why items are empty, by their names. Items of
    an earlier configuration are deleted.
    """
    for file in (*writer.folder.glob("*.md"), *writer.folder.glob("*.html")):
        if file.name != _PAGE:  # the page is kept until it is replaced
            file.unlink()
    for name in ("tables", "figures", "captions"):
        if (writer.folder / name).exists():
            shutil.rmtree(writer.folder / name)
        (writer.folder / name).mkdir(parents=True)
    captions = {"report": _PAGE_CAPTION}
    shown: dict[str, list[Any]] = {group: [] for group in GROUPS}
    omitted = {}
    for item in sorted(items, key=lambda item: GROUPS.index(item.group)):
        part = study.part(item)
        found = getattr(writer, item.group)(item, part)
        if found is None:
            omitted[item.name] = load(item.kind).KIND.empty
        else:
            shown[item.group].append(found)
        captions[item.name] = _caption(item, part)
    special = str.maketrans({char: f"\\{char}" for char in r"\*`_|"})
    for name, text in captions.items():
        write_text(writer.folder / "captions" / f"{name}.rst", text.translate(special) + "\n")
    return shown, omitted


def _lead(study: StudyResults) -> str:
    """A paragraph on the scope of the study and the origin of its numbers."""
    lists = {
        "Source model": [name if name == source_name(name) else f"{name} ({source_name(name)})"
                         for name in study.order("source")],
        "Language": [*map(study.language, study.order("language"))],
    }  # fmt: skip
    named = [f"{what}{'s' if len(names) > 1 else ''}: {listed(names)}."
             for what, names in lists.items() if names]  # fmt: skip
    return " ".join([*named, "All numbers are computed from the records of this study."])


def _facts(study: StudyResults, settings: dict[str, Any]) -> list[tuple[str, str]]:
    """How a study was run: models, texts, seeds, strategies, hardware and versions, from its cards.

    Returns `(what, value)` pairs in reading order; facts that no card has are left out.
    """
    training = study.training
    trained = training[training["steps"] > 0] if "steps" in training else training.iloc[:0]
    rows = [
        *((f"Source model {name}", _source(name, settings)) for name in study.order("source")),
        *((f"Text, {study.language(name)}", _text_size(card))
          for name, card in study.corpora.items()),
        ("Vocabularies", ", ".join(study.new_vocabularies)),
        ("Initializers", ", ".join(study.initializers)),
        ("Strategies", ", ".join(s for s in study.order("strategy") if s != "none")),
        ("Initializers compared under", study.reference_strategy or "no training"),
        ("Seeds", ", ".join(map(str, study.seeds))),
        ("Trained cells", number(len(trained), 0) if len(trained) else ""),
    ]  # fmt: skip
    for column, what, scale, unit, decimals in _NUMBERS:
        values = trained[column].dropna() / scale if column in trained else ()
        if len(values):
            ends = dict.fromkeys(number(end, decimals) for end in (min(values), max(values)))
            rows.append((what, " to ".join(ends) + unit))
    for column, what in _WORDS:
        if column in trained:
            rows.append((what, ", ".join(dict.fromkeys(map(str, trained[column].dropna())))))
    rows += [(f"Version of {name}", ", ".join(found)) for name, found in study.versions.items()]
    return [(what, value) for what, value in rows if value]


def _source(name: str, settings: dict[str, Any]) -> str:
    """A source model's title and origin."""
    title = source_name(name)
    return "; ".join(filter(None, [title, settings.get("sources", {}).get(name, "")]))


def _text_size(card: dict[str, Any]) -> str:
    """Sentences and megabytes of a language's texts, from the corpus's card."""
    parts = {"train": "to train on", "heldout": "held out"}
    return ", ".join(
        f"{number(size['sentences'], 0)} sentences ({number(size['bytes'] / 1e6, 2)} MB) {what}"
        for part, what in parts.items()
        if (size := card.get("sizes", {}).get(part))
    )


def _caption(item: Item, part: StudyResults) -> str:
    count = len(part.seeds)
    caption = item.caption(part.reference_strategy, f"{count} seed{'s' if count > 1 else ''}")
    return " ".join(filter(None, [caption, part.alias_note()]))
