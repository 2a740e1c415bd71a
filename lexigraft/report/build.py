"""Build the report of a study: read, compute, and write tables, figures, page and summary."""

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
    vocabulary_size,
)
from lexigraft.report.findings import caveats, findings
from lexigraft.report.fonts import Fonts, open_fonts
from lexigraft.report.formats import write_table
from lexigraft.report.headline import headline
from lexigraft.report.items import Item, read_items
from lexigraft.report.making import making
from lexigraft.report.page import Content, Shown, render, table_document
from lexigraft.report.records import read_study
from lexigraft.report.samples import samples
from lexigraft.report.study import Study
from lexigraft.report.summarize import summarize
from lexigraft.report.tables import (
    alignment,
    fragmentation,
    initializers,
    perplexity,
    results,
    significance,
    speed,
    strategies,
)
from lexigraft.report.tables.table import Table

if TYPE_CHECKING:
    import pandas

logger = logging.getLogger(__name__)

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
        `folder`: gets `tables/`, `figures/`, `report.html` and `summary.json`.

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
    shown = [item for item in items if item.is_table]
    drawn = [item for item in items if not item.is_table]
    tables, omitted = _write_tables(study, summary, folder / "tables", shown)
    figures, without = _write_figures(study, summary, folder / "figures", drawn, fonts)
    omitted |= without
    numbers = headline(study, summary)
    found = findings(study, numbers)
    content = Content(
        title=study.title,
        numbers=numbers,
        findings=found,
        figures=figures,
        tables=tables,
        samples=samples(study, summary),
        making=making(study),
        caveats=caveats(study),
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
        "caveats": content.caveats,
        "new_tokens": _described(study, summary),
        "omitted": omitted,
    }
    with replacing(folder / "report.html") as path:
        path.write_text(render(content), encoding="utf-8")
    write_json(folder / "summary.json", result)
    logger.info("%s: %d tables, %d figures", folder / "report.html", len(tables), len(figures))
    return result


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
