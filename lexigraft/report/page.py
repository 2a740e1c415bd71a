"""Build the report of a study: read, compute, and write its items, one page and a summary."""

import logging
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup
from pandas import DataFrame

from lexigraft.artifacts.atomic import write_json
from lexigraft.report.drawing import INK, MUTED, PAPER, RULE, Look, figure_style, message, save
from lexigraft.report.figures.new_tokens import compositions
from lexigraft.report.fonts import font_families
from lexigraft.report.frame import StudyResults
from lexigraft.report.items import GROUPS, Item, load, read_items
from lexigraft.report.names import listed, source_name
from lexigraft.report.records import read_study
from lexigraft.report.rendering import document, number, render
from lexigraft.report.samples import sample_outputs
from lexigraft.report.table import Table, as_html, write_table, write_text
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
# Key of a size of a corpus -> its unit.
_SIZES = {
    "train_sentences": "training sentences",
    "train_characters": "characters of training text",
    "heldout_sentences": "held-out sentences",
    "english_sentences": "English sentences",
    "translation_pairs": "pairs to translate",
    "summarization_pairs": "articles to summarize",
}
# Numbers in the cards of training: column, name, scale, unit and decimals.
_CARD_NUMBERS = (
    ("steps", "Steps per cell", 1, "", 0),
    ("tokens", "Training tokens per cell", 1, "", 0),
    ("trained_parameters", "Trained parameters", 1, "", 0),
    ("total_parameters", "Parameters", 1, "", 0),
    ("seconds", "Training time per cell", 60, " min", 1),
    ("share_of_peak", "Share of the hardware's peak speed", 0.01, " %", 0),
    ("peak_memory_bytes", "Peak memory", 1_000_000, " MB", 0),
)
_CARD_NAMES = {"device": "Hardware", "precision": "Precision", "threads": "Threads"}


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
    folder = Path(outputs["folder"])
    _delete_earlier_items(folder)
    tokens = (text for fit in study.examples.values() for text in _example_texts(fit))
    families, uncovered = font_families(inputs.get("fonts"), "".join(tokens))
    caveats = [*study_caveats(study), *text_caveats(study)]
    if uncovered:
        caveats.append(f"No available font covers {', '.join(uncovered)}; such text may be boxes.")
    # Items also name initializers without scores of their own: aliases, and unfinished cells.
    named = (name for item in items for name in item.where.get("initializer", ()))
    look = Look(tuple(dict.fromkeys([*study.initializers, *named])))
    shown: dict[str, list[Any]] = {group: [] for group in GROUPS}
    omitted: dict[str, str] = {}
    captions = {"report": _PAGE_CAPTION}
    with figure_style(families):
        for item in sorted(items, key=lambda item: GROUPS.index(item.group)):
            part = study.part(item)
            captions[item.name] = caption = _caption(item, part)
            content: Any
            if item.group == "pages":
                content = _write_page(item, part, folder, caveats)
            elif item.group == "tables":
                content = _write_table(item, part, folder)
            else:
                content = _write_figure(item, part, folder, look, caption)
            if content is None:
                omitted[item.name] = load(item.kind).empty
            else:
                shown[item.group].append(content)
    for name, text in captions.items():
        special = str.maketrans({char: f"\\{char}" for char in r"\*`_|"})
        write_text(folder / "captions" / f"{name}.rst", text.translate(special) + "\n")
    summary = {
        "study": study.name,
        "title": study.title,
        "reference_strategy": study.reference_strategy,
        "seeds": study.seeds,
        "recommendations": [numbers for _, page in shown["pages"] for numbers in page.numbers],
        "caveats": caveats,
        "new_tokens": [
            {
                "language": composed.language,
                "vocabulary": composed.vocabulary,
                "initializer": composed.initializer,
                "tokens": [
                    {"text": token.text, "parts": list(map(list, token.parts))}
                    for token in composed.tokens
                ],
            }
            for composed in compositions(study)
        ],
        "omitted": omitted,
    }
    page = render(
        "report.html.j2",
        title=study.title,
        lead=_lead(study),
        first=min(shown["figures"], key=lambda figure: figure.rank, default=None),
        pages=shown["pages"],
        figures=shown["figures"],
        tables=[(table, as_html(table)) for table in shown["tables"]],
        samples=sample_outputs(study),
        facts=[*_facts(study, settings), *inputs.get("circumstances", ())],
        caveats=caveats,
        omitted=omitted,
    )
    write_text(folder / _PAGE, page)
    write_json(folder / "summary.json", summary)
    counts = len(shown["tables"]), len(shown["figures"])
    logger.info("%s: %d tables, %d figures", folder / _PAGE, *counts)
    return summary


def _delete_earlier_items(folder: Path) -> None:
    """Delete items of an earlier configuration; the page stays until it is replaced."""
    for file in (*folder.glob("*.md"), *folder.glob("*.html")):
        if file.name != _PAGE:
            file.unlink()
    for name in ("tables", "figures", "captions"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)


def _example_texts(examples: list[dict[str, Any]]) -> list[str]:
    return [text for example in examples
            for text in (example["text"], *(part for part, _ in example["parts"]))]  # fmt: skip


def _caption(item: Item, part: StudyResults) -> str:
    count = len(part.seeds)
    caption = item.caption(part.reference_strategy, f"{count} seed{'s' if count > 1 else ''}")
    return " ".join(filter(None, [caption, part.alias_note()]))


def _write_page(
    item: Item, part: StudyResults, folder: Path, caveats: list[str]
) -> tuple[str, Any] | None:
    title = item.title or f"{item.label}: {part.title}"
    page = load(item.kind).build(part, title, caveats)
    write_text(folder / f"{item.name}.md", page.markdown)
    body = Markup("<h1>{}</h1>\n{}").format(title, page.body)
    write_text(folder / f"{item.name}.html", document(title, body))
    return (item.label, page) if page.numbers else None


def _write_table(item: Item, part: StudyResults, folder: Path) -> Table | None:
    kind = load(item.kind)
    table = kind.build(part)
    if table is None:
        empty = Table(
            ("Model",), (), (), DataFrame(), (f"Empty: {kind.empty}.",), item.label, item.name
        )
        write_table(empty, folder / "tables")
        return None
    title = item.title or table.title or kind.title
    notes = [*table.notes, *filter(None, [part.alias_note()])]
    named = replace(table, name=item.name, title=title, notes=notes)
    write_table(named, folder / "tables")
    return named


def _write_figure(
    item: Item, part: StudyResults, folder: Path, look: Look, caption: str
) -> PageFigure | None:
    kind = load(item.kind)
    figure = kind.build(part, look)
    if figure is None:
        save(message(f"Nothing to show: {kind.empty}."), folder / "figures", item.name)
        return None
    save(figure, folder / "figures", item.name)
    svg = (folder / "figures" / f"{item.name}.svg").read_text(encoding="utf-8")
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
    trial = []
    if study.budget is not None:
        trial = [
            f"A trial with a budget of {study.budget:g}: every amount of text (training text, "
            "tokens, samples, and what vocabularies, vectors and initializers read) is reduced "
            "to this fraction of the study's."
        ]
    if study.scores.empty:
        return trial + study.notes
    seeds, chance = len(study.seeds), "small differences may be chance"
    if seeds < 2:
        caveats = [f"One seed: there is no standard deviation, and {chance}."]
    else:
        few = f", and {chance}" if seeds < _FEW_SEEDS else ""
        caveats = [f"{seeds} seeds: standard deviations are rough estimates{few}."]
    if (study.scores["metric"] == "perplexity").any():
        caveats.append(
            "Perplexity is per token and cannot be compared across vocabularies; bits per byte can."
        )
    tokens = study.training[study.training["tokens"] > 0]["tokens"] if "tokens" in study.training \
        else ()  # fmt: skip
    if len(tokens):
        ends = dict.fromkeys(number(end, 0) for end in (min(tokens), max(tokens)))
        text = f"Each trained cell saw {' to '.join(ends)} tokens"
        if max(tokens) < _SMALL_BUDGET:
            text += ", a very small budget: the scores do not show what longer training reaches"
        caveats.append(f"{text}.")
    reasons = Counter((run.metric, run.why) for run in study.not_scored)
    caveats += [
        f"{name} did not score {number(count, 0)} run{'s' if count > 1 else ''}: {why}"
        for (name, why), count in reasons.items()
    ]
    return trial + caveats + study.notes


def text_caveats(study: StudyResults) -> list[str]:
    """Sentences on small or damaged texts, and on tests in the training text."""
    caveats = _different_sizes(study)
    for language, card in study.corpora.items():
        name = study.language(language)
        if reduced := card.get("reduced"):
            sizes = (
                f"{number(size['taken'], 0)} {_SIZES[part]} instead of {number(size['wanted'], 0)}"
                for part, size in reduced.items()
            )
            caveats.append(f"{name} has little text: {', '.join(sizes)}.")
        damage = {
            count: f"{what}; `repair: [{remedy}]` repairs them."
            for count, (what, remedy) in ON_REQUEST.items()
            if remedy not in repaired(card)
        }
        damage["lost_characters"] = "incomplete: characters were lost in decoding."
        for text, counts in card.get("cleaning", {}).items():
            caveats += [
                f"{name}, {text}: {number(counts[count], 0)} of {number(counts['read'], 0)} lines "
                f"are {what}"
                for count, what in damage.items()
                if counts.get(count)
            ]
    return caveats + [
        f"{study.language(tests.language)}: of {number(tests.counts['texts'], 0)} texts of "
        f"{tests.tests}, {number(tests.counts['found'], 0)} are wholly and "
        f"{number(tests.counts['mostly_found'], 0)} mostly in the training text; scores on them "
        "are less reliable."
        for tests in contaminated(study)
        if tests.counts["found"] or tests.counts["mostly_found"]
    ]


def _different_sizes(study: StudyResults) -> list[str]:
    """A sentence on each task with different numbers of texts between languages or cells."""
    sizes: dict[tuple[str, str], dict[int, dict[str, None]]] = {}
    for run in study.predictions:
        counts = {
            name: run.details[part]["sentences"]
            for part, name in (("heldout", "held-out sentences"), ("english", "English sentences"))
            if part in run.details
        }
        if "samples" in run.metrics:
            counts["texts"] = int(run.metrics["samples"])
        for name, count in counts.items():
            languages = sizes.setdefault((run.task, name), {}).setdefault(count, {})
            languages[study.language(run.cell["language"])] = None
    return [
        f"{task} has different numbers of {name}: "
        + ", ".join(f"{number(n, 0)} in {' and '.join(counts[n])}" for n in sorted(counts))
        + "."
        for (task, name), counts in sizes.items()
        if len(counts) > 1
    ]


def _lead(study: StudyResults) -> str:
    """A paragraph on the scope of the study and the origin of its numbers."""
    names = {
        "Source model": [
            name if name == source_name(name) else f"{name} ({source_name(name)})"
            for name in study.order("source")
        ],
        "Language": [*map(study.language, study.order("language"))],
    }
    scope = [
        f"{what}{'s' if len(of_axis) > 1 else ''}: {listed(of_axis)}."
        for what, of_axis in names.items()
        if of_axis
    ]
    return " ".join([*scope, "All numbers are computed from the records of this study."])


def _facts(study: StudyResults, settings: dict[str, Any]) -> list[tuple[str, str]]:
    """How a study was run: models, texts, seeds, strategies, hardware and versions, from its cards.

    Returns `(what, value)` pairs in reading order; facts that no card has are left out.
    """
    facts = []
    for name in study.order("source"):
        origin = settings.get("sources", {}).get(name, "")
        facts.append((f"Source model {name}", "; ".join(filter(None, [source_name(name), origin]))))
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
    for column, what, scale, unit, decimals in _CARD_NUMBERS:
        values = trained[column].dropna() / scale if column in trained else ()
        if len(values):
            ends = dict.fromkeys(number(end, decimals) for end in (min(values), max(values)))
            facts.append((what, " to ".join(ends) + unit))
    for column, what in _CARD_NAMES.items():
        if column in trained:
            facts.append((what, ", ".join(dict.fromkeys(map(str, trained[column].dropna())))))
    facts += [(f"Version of {name}", ", ".join(known)) for name, known in study.versions.items()]
    return [(what, value) for what, value in facts if value]
