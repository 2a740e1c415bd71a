"""Build the report of a study: read, compute, and write its items, one page and a summary."""

import logging
import re
import shutil
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup
from pandas import DataFrame, Series
from pandas.api.types import is_numeric_dtype

from lexigraft.artifacts.atomic import write_json
from lexigraft.report.drawing import INK, MUTED, PAPER, RULE, Look, figure_style, message, save
from lexigraft.report.frame import StudyResults
from lexigraft.report.items import GROUPS, Item, load, read_items
from lexigraft.report.names import initializer_name, listed, source_name
from lexigraft.report.records import read_study
from lexigraft.report.samples import sample_outputs
from lexigraft.report.table import Table, as_html, document, number, render, write_table, write_text
from lexigraft.report.tables.contamination import contaminated
from lexigraft.report.tables.texts import ON_REQUEST, repaired

logger = logging.getLogger(__name__)

_PAGE = "report.html"
_PAGE_CAPTION = (
    "The whole study on one page: recommendation, caveats, figures, tables, sample outputs with "
    "their references, and how the study was run. The file is self-contained."
)
# Less than a hundredth of the training of published work (30,000 sentences, two epochs).
_SMALL_BUDGET = 100_000  # tokens
_FEW_SEEDS = 5
# Numbers and names in the cards of training: column, name, scale, unit and decimals.
_CARD_FACTS = (
    ("steps", "Steps per cell", 1, "", 0),
    ("tokens", "Training tokens per cell", 1, "", 0),
    ("trained_parameters", "Trained parameters", 1, "", 0),
    ("total_parameters", "Parameters", 1, "", 0),
    ("seconds", "Training time per cell", 60, " min", 1),
    ("share_of_peak", "Share of the hardware's peak speed", 0.01, " %", 0),
    ("peak_memory_bytes", "Peak memory", 1_000_000, " MB", 0),
    ("device", "Hardware", 1, "", 0),
    ("precision", "Precision", 1, "", 0),
    ("threads", "Threads", 1, "", 0),
)


class PageFigure(NamedTuple):
    """A figure on the page."""

    name: str
    svg: Markup
    caption: str
    title: str
    rank: int


def build_report(
    settings: dict[str, Any], inputs: dict[str, Any], outputs: dict[str, Any]
) -> dict[str, Any]:
    """Write the report of a study; returns the content of `summary.json`.

    Raises a UserError if there are no records, one is damaged, or an item is unknown.

    Parameters
    ----------
    settings
        The result of `lexigraft.report.inputs.report_settings`.
    inputs
        The result of `lexigraft.report.inputs.report_inputs`, and `languages`: name -> registry
        entry; `published`: files with the numbers of papers; `fonts`: a folder of fonts or None;
        `snakemake`: further arguments of the command that exports a cell; `circumstances`: further
        facts for the page about how the report was built, `(what, value)`.
    outputs
        `folder`: receives `tables/`, `figures/`, `captions/`, `report.html`, `summary.json`, and a
        `.md` and `.html` file for each page.
    """
    items = read_items(settings.get("items") or [])
    study = read_study(settings, inputs)
    folder = Path(outputs["folder"])
    # Delete items of an earlier configuration; the page stays until it is replaced.
    for file in (*folder.glob("*.md"), *folder.glob("*.html")):
        if file.name != _PAGE:
            file.unlink()
    for name in ("tables", "figures", "captions"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
    caveats = [*study_caveats(study), *text_caveats(study)]
    # Items also name initializers without scores of their own: aliases, and unfinished cells.
    named = (name for item in items for name in item.where.get("initializer", ()))
    look = Look(tuple(dict.fromkeys([*study.initializers, *named])))
    contents: dict[str, list[Any]] = {group: [] for group in GROUPS}
    omitted: dict[str, str] = {}
    captions = {"report": _PAGE_CAPTION}
    names = [*map(study.language, study.languages), *map(initializer_name, look.initializers)]
    with figure_style(inputs.get("fonts"), [study.title, *names]):
        for item in sorted(items, key=lambda item: GROUPS.index(item.group)):
            part = study.part(item)
            count = len(part.seeds)
            caption = item.caption(
                part.reference_strategy, f"{count} seed{'s' if count > 1 else ''}"
            )
            captions[item.name] = caption = " ".join(filter(None, [caption, part.alias_note()]))
            content: Any
            if item.group == "pages":
                title = item.title or f"{item.label}: {part.title}"
                page = load(item.kind).build(part, title, caveats)
                write_text(folder / f"{item.name}.md", page.markdown)
                body = Markup("<h1>{}</h1>\n{}").format(title, page.body)
                write_text(folder / f"{item.name}.html", document(title, body))
                content = (item.label, page) if page.numbers else None
            elif item.group == "tables":
                content = _write_table(item, part, folder / "tables")
            else:
                content = _write_figure(item, part, folder / "figures", look, caption)
            if content is None:
                omitted[item.name] = load(item.kind).empty
            else:
                contents[item.group].append(content)
    special = str.maketrans({char: f"\\{char}" for char in r"\*`_|"})
    for name, text in captions.items():
        write_text(folder / "captions" / f"{name}.rst", text.translate(special) + "\n")
    summary = {
        "study": study.name,
        "title": study.title,
        "reference_strategy": study.reference_strategy,
        "seeds": study.seeds,
        "recommendations": [numbers for _, page in contents["pages"] for numbers in page.numbers],
        "caveats": caveats,
        "omitted": omitted,
    }
    sources = [
        name if name == source_name(name) else f"{name} ({source_name(name)})"
        for name in study.order("source")
    ]
    scope = [
        f"{what}{'s' if len(names) > 1 else ''}: {listed(names)}."
        for what, names in (
            ("Source model", sources),
            ("Language", [*map(study.language, study.order("language"))]),
        )
        if names
    ]
    html = render(
        "report.html.j2",
        title=study.title,
        lead=" ".join([*scope, "All numbers are computed from the records of this study."]),
        first=min(contents["figures"], key=lambda figure: figure.rank, default=None),
        pages=contents["pages"],
        figures=contents["figures"],
        tables=[(table, as_html(table)) for table in contents["tables"]],
        samples=sample_outputs(study),
        facts=[*_facts(study, settings), *inputs.get("circumstances", ())],
        caveats=caveats,
        omitted=omitted,
    )
    write_text(folder / _PAGE, html)
    write_json(folder / "summary.json", summary)
    counts = len(contents["tables"]), len(contents["figures"])
    logger.info("%s: %d tables, %d figures", folder / _PAGE, *counts)
    return summary


def _write_table(item: Item, part: StudyResults, folder: Path) -> Table | None:
    kind = load(item.kind)
    table = kind.build(part)
    if table is None:
        nothing = (f"Empty: {kind.empty}.",)
        write_table(Table(("Model",), (), (), DataFrame(), nothing, item.label, item.name), folder)
        return None
    title = item.title or table.title or kind.title
    notes = [*table.notes, *filter(None, [part.alias_note()])]
    table = replace(table, name=item.name, title=title, notes=notes)
    write_table(table, folder)
    return table


def _write_figure(
    item: Item, part: StudyResults, folder: Path, look: Look, caption: str
) -> PageFigure | None:
    kind = load(item.kind)
    figure = kind.build(part, look)
    save(figure or message(f"Nothing to show: {kind.empty}."), folder, item.name)
    if figure is None:
        return None
    svg = (folder / f"{item.name}.svg").read_text(encoding="utf-8")
    title = item.title or kind.title
    return PageFigure(item.name, inline_svg(svg, item.name), caption, title, kind.rank)


def inline_svg(svg: str, name: str) -> Markup:
    """Matplotlib's SVG for use in a page: unique ids, theme colours, no namespaces."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    svg = svg.replace("xlink:href=", "href=")
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{name}-", svg)
    # The size in points in the first tag would override the style sheet.
    head, content = svg.split(">", 1)
    svg = re.sub(r'\s(width|height)="[^"]*"', "", head) + ' aria-hidden="true">' + content
    for colour, variable in ((INK, "ink"), (MUTED, "muted"), (RULE, "rule"), (PAPER, "paper")):
        svg = re.sub(colour, f"var(--{variable})", svg, flags=re.IGNORECASE)
    return Markup(svg)


def study_caveats(study: StudyResults) -> list[str]:
    """Limits of the conclusions, from the config, the cards and the records."""
    caveats = []
    if study.budget is not None:
        caveats.append(
            f"A trial with a budget of {study.budget:g}: every amount of text (training text, "
            "tokens, samples, and what vocabularies, vectors and initializers read) is reduced "
            "to this fraction of the study's."
        )
    if study.scores.empty:
        return caveats + study.notes
    seeds = len(study.seeds)
    if seeds < _FEW_SEEDS:
        deviation = "no standard deviation" if seeds < 2 else "rough standard deviations"
        count = f"{seeds} seed{'s' if seeds > 1 else ''}"
        caveats.append(f"{count}: {deviation}, and small differences may be chance.")
    if (study.scores["metric"] == "perplexity").any():
        caveats.append(
            "Perplexity is per token and cannot be compared across vocabularies; bits per byte can."
        )
    tokens = study.training.get("tokens", Series(dtype=float))
    if tokens := [count for count in tokens if count > 0]:
        text = f"Each trained cell saw {_range(tokens)} tokens"
        if max(tokens) < _SMALL_BUDGET:
            text += ", a very small budget: the scores do not show what longer training reaches"
        caveats.append(f"{text}.")
    reasons = Counter((run.metric, run.why) for run in study.not_scored)
    caveats += [
        f"{name} did not score {number(count, 0)} run{'s' if count > 1 else ''}: {why}"
        for (name, why), count in reasons.items()
    ]
    return caveats + study.notes


def text_caveats(study: StudyResults) -> list[str]:
    """Sentences on small or damaged texts, and on tests in the training text."""
    caveats = []
    for language, card in study.corpora.items():
        name = study.language(language)
        if reduced := card.get("reduced"):
            sizes = (
                f"{number(size['taken'], 0)} {part.replace('_', ' ')} instead of "
                f"{number(size['wanted'], 0)}"
                for part, size in reduced.items()
            )
            caveats.append(f"{name} has little text: {', '.join(sizes)}.")
        caveats += [
            f"{name}, {text}: {number(counts[count], 0)} of {number(counts['read'], 0)} lines "
            f"are {what}; `repair: [{remedy}]` repairs them."
            for text, counts in card.get("cleaning", {}).items()
            for count, (what, remedy) in ON_REQUEST.items()
            if counts.get(count) and remedy not in repaired(card)
        ]
    return caveats + [
        f"{study.language(tests.language)}: of {number(tests.counts['texts'], 0)} texts of "
        f"{tests.tests}, {number(tests.counts['found'], 0)} are wholly and "
        f"{number(tests.counts['mostly_found'], 0)} mostly in the training text; scores on them "
        "are less reliable."
        for tests in contaminated(study)
        if tests.counts["found"] or tests.counts["mostly_found"]
    ]


def _facts(study: StudyResults, settings: dict[str, Any]) -> list[tuple[str, str]]:
    """How a study was run: `(what, value)` in reading order, without what no card has."""
    origins = settings.get("sources", {})
    facts = [
        (f"Source model {name}", "; ".join(filter(None, [source_name(name), origins.get(name)])))
        for name in study.order("source")
    ]
    for language, card in study.corpora.items():
        sizes = [
            f"{number(size['sentences'], 0)} sentences ({number(size['bytes'] / 1e6, 2)} MB) {what}"
            for part, what in (("train", "to train on"), ("heldout", "held out"))
            if (size := card.get("sizes", {}).get(part))
        ]
        facts.append((f"Text, {study.language(language)}", ", ".join(sizes)))
    training = study.training
    trained = training[training["steps"] > 0] if "steps" in training else training.iloc[:0]
    facts += [
        ("Vocabularies", ", ".join(study.new_vocabularies)),
        ("Initializers", ", ".join(study.initializers)),
        ("Strategies", ", ".join(name for name in study.order("strategy") if name != "none")),
        ("Initializers compared under", study.reference_strategy or "no training"),
        ("Seeds", ", ".join(map(str, study.seeds))),
        ("Trained cells", number(len(trained), 0) if len(trained) else ""),
    ]
    for column, what, scale, unit, decimals in _CARD_FACTS:
        values = trained[column].dropna() if column in trained else Series(dtype=float)
        if is_numeric_dtype(values) and len(values):
            facts.append((what, _range(values / scale, decimals) + unit))
        else:
            facts.append((what, ", ".join(dict.fromkeys(map(str, values)))))
    facts += [(f"Version of {name}", ", ".join(known)) for name, known in study.versions.items()]
    return [(what, value) for what, value in facts if value]


def _range(values: Collection[float], decimals: int = 0) -> str:
    """`30 to 45`, or `30` if all are equal."""
    ends = (number(end, decimals) for end in (min(values), max(values)))
    return " to ".join(dict.fromkeys(ends))
