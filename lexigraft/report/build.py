"""Build the report of a study: read, compute, and write tables, figures, page and summary."""

import html
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.atomic import replacing, write_json
from lexigraft.report import style
from lexigraft.report.composition import compositions
from lexigraft.report.figures import (
    alignment_loss,
    bits_per_byte,
    checkpoints,
    fertility,
    forgetting,
    loss_curves,
    new_tokens,
    source_fragmentation,
    speed_quality,
    target_token_share,
    tokens_per_sentence,
    vocabulary_size,
)
from lexigraft.report.findings import caveats, finding_numbers, findings
from lexigraft.report.fonts import Fonts, open_fonts
from lexigraft.report.formats import write_table
from lexigraft.report.items import PAGES, Item, read_items
from lexigraft.report.making import making
from lexigraft.report.page import Content, Shown, document, render, table_document
from lexigraft.report.recommendation_text import (
    RecommendationText,
    recommendation_html,
    recommendation_markdown,
    recommendation_texts,
)
from lexigraft.report.records import read_study
from lexigraft.report.samples import samples
from lexigraft.report.study import Study
from lexigraft.report.summarize import summarize
from lexigraft.report.tables import (
    alignment,
    contamination,
    fragmentation,
    initializers,
    perplexity,
    results,
    significance,
    speed,
    strategies,
    texts,
    tokenizers,
)
from lexigraft.report.tables.table import Table
from lexigraft.report.texts import text_caveats

if TYPE_CHECKING:
    import pandas

logger = logging.getLogger(__name__)

NO_ADVICE = "no cell with new tokens has a score of quality"

# Of each kind of item: its module, and what is said where a study has nothing to show under it.
TABLES = {
    "results": (results, "no cell has a task that measures quality"),
    "strategies": (strategies, "no initializer was trained under two strategies or more"),
    "significance": (significance, "no outputs of a model and a baseline on the same examples"),
    "speed": (speed, "no speed was measured"),
    "perplexity": (perplexity, "no perplexity was measured"),
    "fragmentation": (fragmentation, "no vocabulary was changed"),
    "initializers": (initializers, "no initializer's recipe was recorded"),
    "alignment": (alignment, "no alignment of a recipe was measured"),
    "tokenizers": (tokenizers, "no tokenizer was compared without a model"),
    "texts": (texts, "no text was prepared"),
    "contamination": (contamination, "there are no tests to look for in the training text"),
}
FIGURES = {
    "bits_per_byte": (bits_per_byte, "no cell has bits per byte before and after training"),
    "loss_curves": (loss_curves, "no cell was trained with a log"),
    "checkpoints": (checkpoints, "no task was run on checkpoints of training"),
    "forgetting": (forgetting, "no trained cell has English text measured beside its source"),
    "speed_quality": (speed_quality, "speed and quality were not both measured"),
    "vocabulary_size": (vocabulary_size, "no vocabulary's size and quality were both measured"),
    "target_token_share": (target_token_share, "no share of new tokens was measured"),
    "source_fragmentation": (source_fragmentation, "no tokenizer was measured beside English"),
    "fertility": (fertility, "no vocabulary was changed"),
    "new_tokens": (new_tokens, "no initializer of this study returns a recipe"),
    "alignment_loss": (
        alignment_loss,
        "no vocabulary has two initializers with an alignment and a training log",
    ),
    "tokens_per_sentence": (tokens_per_sentence, "no tokenizer was compared without a model"),
}


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
        `records`, `fragmentation`: paths of records; `training`, `initialization`: folders;
        `languages`: name -> its registry entry; `fonts`: a folder of fonts or None.
    outputs
        `folder`: gets `tables/`, `figures/`, `report.html`, `summary.json`, and a `.md` and `.html`
        of each page.

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
    summary = summarize(study.scores)
    folder = Path(outputs["folder"])
    fonts = open_fonts(inputs.get("fonts"))
    pages, shown, drawn = (
        [item for item in items if item.group == group] for group in ("pages", "tables", "figures")
    )
    tables, omitted = _write_tables(study, summary, folder / "tables", shown)
    figures, without = _write_figures(study, summary, folder / "figures", drawn, fonts)
    omitted |= without
    doubts = [*caveats(study), *text_caveats(study)]
    recommended = _write_pages(study, summary, folder, pages, doubts)
    omitted |= {item.name: NO_ADVICE for item, found in recommended if not found}
    numbers = finding_numbers(study, summary)
    found = findings(numbers)
    content = Content(
        title=study.title,
        numbers=numbers,
        findings=found,
        advice=[(item.label, recommendation_html(own)) for item, own in recommended if own],
        figures=figures,
        tables=tables,
        samples=samples(study, summary),
        making=making(study),
        caveats=doubts,
        omitted=omitted,
        languages={key: study.language(key) for key in study.order("language")},
        fonts={},
    )
    content.fonts.update(fonts.embedded(content.texts()))
    if fonts.missing:
        scripts = ", ".join(sorted(fonts.missing))
        content.caveats.append(f"No font at hand shows {scripts}; such text may appear as boxes.")
    result = {
        "study": study.name,
        "title": study.title,
        "reference_strategy": study.reference_strategy,
        "seeds": study.seeds,
        "languages": numbers,
        "findings": [f"{study.language(f.language)}: {f.text}" for f in found],
        "recommendations": [one.numbers for _, own in recommended for one in own],
        "caveats": content.caveats,
        "new_tokens": _described(study, summary),
        "omitted": omitted,
    }
    with replacing(folder / "report.html") as path:
        path.write_text(render(content), encoding="utf-8")
    write_json(folder / "summary.json", result)
    logger.info("%s: %d tables, %d figures", folder / "report.html", len(tables), len(figures))
    return result


def _write_pages(
    study: Study, summary: "pandas.DataFrame", folder: Path, items: list[Item], doubts: list[str]
) -> list[tuple[Item, list[RecommendationText]]]:
    """Write every page asked for; one with nothing in it says why."""
    for earlier in (f"{name}{suffix}" for name in PAGES for suffix in (".md", ".html")):
        (folder / earlier).unlink(missing_ok=True)
    written = []
    for item in items:
        part = study.part(item)
        found = recommendation_texts(part, _summary(study, part, summary))
        title = item.title or f"{item.label}: {study.title}"
        page = document(title, f"<h1>{html.escape(title)}</h1>\n{recommendation_html(found)}", {})
        for suffix, text in (
            (".md", recommendation_markdown(title, found, doubts)),
            (".html", page),
        ):
            with replacing(folder / f"{item.name}{suffix}") as path:
                path.write_text(text, encoding="utf-8")
        written.append((item, found))
    return written


def _write_tables(
    study: Study, summary: "pandas.DataFrame", folder: Path, items: list[Item]
) -> tuple[list[Table], dict[str, str]]:
    """Write every table asked for; one with nothing in it says why."""
    import pandas

    _empty(folder)
    written, omitted = [], {}
    for item in items:
        module, reason = TABLES[item.kind]
        part = study.part(item)
        found = module.build(part, _summary(study, part, summary))
        if found is None:
            omitted[item.name] = reason
            note = (f"Empty: {reason}.",)
            found = Table("", item.label, ("Model",), (), (), pandas.DataFrame(), note)
        table = replace(found, name=item.name, title=item.title or found.title)
        written += [] if item.name in omitted else [table]
        write_table(table, folder)
        with replacing(folder / f"{item.name}.html") as path:
            path.write_text(table_document(table), encoding="utf-8")
    return written, omitted


def _write_figures(
    study: Study, summary: "pandas.DataFrame", folder: Path, items: list[Item], fonts: Fonts
) -> tuple[list[Shown], dict[str, str]]:
    """Write every figure asked for; one with nothing in it says why."""
    _empty(folder)
    written, omitted = [], {}
    looks = style.Look(tuple(study.initializers), fonts)
    with style.look(fonts):
        for item in items:
            module, reason = FIGURES[item.kind]
            part = study.part(item)
            figure = module.draw(part, _summary(study, part, summary), looks)
            if figure is None:
                omitted[item.name] = reason
                style.save(style.notice(f"Nothing to show: {reason}."), folder, item.name)
                continue
            style.save(figure, folder, item.name)
            svg = (folder / f"{item.name}.svg").read_text(encoding="utf-8")
            written.append(Shown(item.name, svg, module.caption(part), item.title))
    return written, omitted


def _summary(study: Study, part: Study, summary: "pandas.DataFrame") -> "pandas.DataFrame":
    """The summary of a part; baselines are in every part, so changes over Source stay the same."""
    return summary if part.scores is study.scores else summarize(part.scores)


def _described(study: Study, summary: "pandas.DataFrame") -> list[dict[str, Any]]:
    return [
        {
            "language": found.language,
            "vocabulary": found.vocabulary,
            "initializer": found.initializer,
            "tokens": [
                {"text": token.text, "parts": [[p.label, p.weight] for p in token.parts]}
                for token in found.tokens
            ],
        }
        for found in compositions(study, summary)
    ]


def _empty(folder: Path) -> None:
    """Items of an earlier configuration must not stay beside this one's."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
