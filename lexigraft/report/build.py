"""Build the report of a study: read, compute, and write its items, one page and a summary."""

import html
import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.atomic import replacing, write_json
from lexigraft.report import style
from lexigraft.report.figures.new_tokens import described
from lexigraft.report.findings import caveats, finding_numbers, findings
from lexigraft.report.fonts import Fonts, open_fonts
from lexigraft.report.formats import write_table
from lexigraft.report.items import Item, kinds, load, read_items
from lexigraft.report.page import Content, Figure, Page, document, render, table_document
from lexigraft.report.records import read_study
from lexigraft.report.sample_outputs import sample_outputs
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import summarize
from lexigraft.report.table import Table, number
from lexigraft.report.tables.texts import text_caveats

if TYPE_CHECKING:
    import pandas

logger = logging.getLogger(__name__)

_MEGABYTE = 1_000_000
_PAGE_CAPTION = (
    "The whole study on one page: findings, caveats, figures, tables, sample outputs beside their "
    "references, and how the study was run. It loads nothing from elsewhere."
)


def build_report(
    settings: dict[str, Any], inputs: dict[str, Any], outputs: dict[str, Any]
) -> dict[str, Any]:
    """Write the report of a study.

    Parameters
    ----------
    settings
        `study` (name), `title`, `reference` (`{"strategy": …}` under which initializers are
        compared), `items` (what `lexigraft.report.items.read_items` takes).
    inputs
        `records`, `learned`, `checkpoints`, `fragmentation`, `tokenizers`, `alignment` and
        `contamination`: paths of records. `training` and `initialization`: folder -> what it holds,
        axes by name and a `seed` (None for an initializer of all seeds). `corpora`: language ->
        card. `planned`: `(language, task)` of all records, made or not. `languages`: name -> its
        registry entry. `fonts`: a folder of fonts or None.
    outputs
        `folder`: gets `tables/`, `figures/`, `captions/`, `report.html`, `summary.json`, and a
        `.md` and `.html` of each page.

    Returns
    -------
    dict
        What `summary.json` holds.

    Raises
    ------
    UserError
        There are no records, a record is damaged, or an item is unknown.
    """
    items = read_items(settings.get("items") or [])
    study = read_study(settings, inputs)
    fonts = open_fonts(inputs.get("fonts"))
    warnings = [*caveats(study), *text_caveats(study)]
    written = _Written(study, summarize(study.scores), Path(outputs["folder"]))
    written.pages(items, warnings)
    written.tables(items)
    written.figures(items, fonts)
    written.captions(items)
    numbers = finding_numbers(study, written.summary)
    found = findings(numbers)
    content = Content(
        title=study.title,
        numbers=numbers,
        findings=found,
        pages=written.found_pages,
        figures=written.found_figures,
        tables=written.found_tables,
        samples=sample_outputs(study, written.summary),
        facts=experiment_facts(study),
        caveats=warnings,
        omitted=written.omitted,
        languages={key: study.language(key) for key in study.order("language")},
        fonts={},
    )
    content.fonts.update(fonts.embedded(content.texts()))
    if fonts.missing:
        scripts = ", ".join(sorted(fonts.missing))
        content.caveats.append(
            f"No available font covers {scripts}; such text may appear as boxes."
        )
    result = {
        "study": study.name,
        "title": study.title,
        "reference_strategy": study.reference_strategy,
        "seeds": study.seeds,
        "languages": numbers,
        "findings": [f"{study.language(f.language)}: {f.text}" for f in found],
        "recommendations": [one for _, page in written.found_pages for one in page.numbers],
        "caveats": content.caveats,
        "new_tokens": described(study, written.summary),
        "omitted": written.omitted,
    }
    _write(written.folder / "report.html", render(content))
    write_json(written.folder / "summary.json", result)
    shown = len(content.tables), len(content.figures)
    logger.info("%s: %d tables, %d figures", written.folder / "report.html", *shown)
    return result


def experiment_facts(study: StudyResults) -> list[tuple[str, str]]:
    """How a study was run: models, seeds, strategies, hardware and versions, from its cards.

    `(what, value)` pairs in reading order; what no card says is left out.
    """
    languages = [study.language(name) for name in study.order("language")]
    rows = [
        ("Source models", ", ".join(study.order("source"))),
        ("Languages", ", ".join(languages)),
        ("Vocabularies", ", ".join(study.new_vocabularies)),
        ("Initializers", ", ".join(study.initializers)),
        ("Strategies", ", ".join(s for s in study.order("strategy") if s != "none")),
        ("Initializers compared under", study.reference_strategy or "no training"),
        ("Seeds", ", ".join(map(str, study.seeds))),
        *_training_facts(study.training),
        *[(f"Version of {package}", ", ".join(found)) for package, found in study.versions.items()],
    ]
    return [(what, value) for what, value in rows if value]


def _training_facts(training: "pandas.DataFrame") -> list[tuple[str, str]]:
    if "steps" not in training:
        return []
    trained = training[training["steps"] > 0]
    rows = [("Trained cells", number(len(trained), 0))] if len(trained) else []
    for column, what, scale, unit, decimals in (
        ("steps", "Steps per cell", 1, "", 0),
        ("tokens", "Training tokens per cell", 1, "", 0),
        ("trained_parameters", "Trained parameters", 1, "", 0),
        ("total_parameters", "Parameters", 1, "", 0),
        ("seconds", "Training time per cell", 60, " min", 1),
        ("share_of_peak", "Share of the hardware's peak speed", 0.01, " %", 0),
        ("peak_memory_bytes", "Peak memory", _MEGABYTE, " MB", 0),
    ):
        if column not in trained:
            continue
        values = trained[column].dropna() / scale
        if len(values):
            low, high = number(values.min(), decimals), number(values.max(), decimals)
            rows.append((what, (low if low == high else f"{low} to {high}") + unit))
    for column, what in (
        ("device", "Hardware"),
        ("precision", "Precision"),
        ("threads", "Threads"),
    ):
        if column in trained:
            found = dict.fromkeys(str(value) for value in trained[column].dropna())
            rows.append((what, ", ".join(found)))
    return rows


@dataclass
class _Written:
    """Writes the items of a report; one with nothing to show says why, and is `omitted`."""

    study: StudyResults
    summary: "pandas.DataFrame"
    folder: Path
    found_pages: list[tuple[str, Page]] = field(default_factory=list)
    found_tables: list[Table] = field(default_factory=list)
    found_figures: list[Figure] = field(default_factory=list)
    omitted: dict[str, str] = field(default_factory=dict)

    def pages(self, items: list[Item], warnings: list[str]) -> None:
        """Write `<name>.md` and `<name>.html` of each page."""
        for name in (name for name, group in kinds().items() if group == "pages"):
            for suffix in (".md", ".html"):
                (self.folder / f"{name}{suffix}").unlink(missing_ok=True)
        for item, part, summary in self._parts(items, "pages"):
            title = item.title or f"{item.label}: {part.title}"
            page = load(item.kind).build(part, summary, title, warnings)
            if page.numbers:
                self.found_pages.append((item.label, page))
            else:
                self.omitted[item.name] = load(item.kind).KIND.empty
            body = f"<h1>{html.escape(title)}</h1>\n{page.body}"
            _write(self.folder / f"{item.name}.md", page.markdown)
            _write(self.folder / f"{item.name}.html", document(title, body, {}))

    def tables(self, items: list[Item]) -> None:
        """Write each table in all its formats."""
        import pandas

        folder = _emptied(self.folder / "tables")
        for item, part, summary in self._parts(items, "tables"):
            kind = load(item.kind).KIND
            found = load(item.kind).build(part, summary)
            title = item.title or (found and found.title) or kind.title
            if found is None:
                self.omitted[item.name] = kind.empty
                empty = (f"Empty: {kind.empty}.",)
                table = Table(("Model",), (), (), pandas.DataFrame(), empty, item.label, item.name)
            else:
                table = replace(found, name=item.name, title=title)
                self.found_tables.append(table)
            write_table(table, folder)
            _write(folder / f"{item.name}.html", table_document(table))

    def figures(self, items: list[Item], fonts: Fonts) -> None:
        """Write each figure in all its formats."""
        folder = _emptied(self.folder / "figures")
        look = style.Look(tuple(self.study.initializers), fonts)
        with style.look(fonts):
            for item, part, summary in self._parts(items, "figures"):
                kind = load(item.kind).KIND
                figure = load(item.kind).draw(part, summary, look)
                if figure is None:
                    self.omitted[item.name] = kind.empty
                    style.save(style.message(f"Nothing to show: {kind.empty}."), folder, item.name)
                    continue
                style.save(figure, folder, item.name)
                svg = (folder / f"{item.name}.svg").read_text(encoding="utf-8")
                title, caption = item.title or kind.title, _caption(item, part)
                self.found_figures.append(Figure(item.name, svg, caption, title))

    def captions(self, items: list[Item]) -> None:
        """Write what Snakemake's own report says beside each item, in reStructuredText."""
        folder = _emptied(self.folder / "captions")
        texts = {item.name: _caption(item, self.study.part(item)) for item in items}
        for name, text in (texts | {"report": _PAGE_CAPTION}).items():
            special = str.maketrans({char: f"\\{char}" for char in r"\*`_|"})
            _write(folder / f"{name}.rst", text.translate(special) + "\n")

    def _parts(
        self, items: list[Item], group: str
    ) -> "Iterator[tuple[Item, StudyResults, pandas.DataFrame]]":
        """Each item of a group, with the part of the study that it shows and its summary."""
        for item in (item for item in items if item.group == group):
            part = self.study.part(item)
            # Baselines are in every part, so changes over Source stay the same.
            same = part.scores is self.study.scores
            yield item, part, self.summary if same else summarize(part.scores)


def _caption(item: Item, part: StudyResults) -> str:
    count = len(part.seeds)
    return item.caption(part.reference_strategy, f"{count} seed{'s' if count > 1 else ''}")


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _emptied(folder: Path) -> Path:
    """Items of an earlier configuration must not stay beside this one's."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder
