"""The outcome of an adaptation: its scores and those of the baselines, and the model's card."""

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lexigraft.artifacts.atomic import link_or_copy, replacing, replacing_folder
from lexigraft.artifacts.cards import read_card
from lexigraft.errors import UserError
from lexigraft.model_card import README, model_card
from lexigraft.training.export import cell_facts
from workflow.commands.tables import new_table
from workflow.stages.cells import training

if TYPE_CHECKING:
    from rich.table import Table

    from lexigraft.cells import Cell
    from workflow.stages import Study

MODEL, REPORT = "model", "report.html"
TASK = "perplexity"
_COLUMNS = {"source": "source model", "LAPT": "LAPT", "adapted": "this model"}


class Scores(NamedTuple):
    """Scores of a model on the held-out text."""

    bits_per_byte: float
    tokens_per_sentence: float
    english_bits_per_byte: float | None
    sentences: int


def scores_of(study: "Study", cells: Mapping[str, "Cell"]) -> dict[str, Scores]:
    """Scores by the names of cells; raises a `UserError` if a record is missing."""
    found = {}
    for name, cell in cells.items():
        file = Path(study.output("evaluate", **cell.wildcards), TASK, "run-0", "record.json")
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise UserError(f"{file}: cannot be read; run the same command again") from None
        metrics, sentences = record["metrics"], record["details"]["heldout"]["sentences"]
        found[name] = Scores(
            metrics["bits_per_byte"],
            metrics["tokens"] / sentences,
            metrics.get("english_bits_per_byte"),
            sentences,
        )
    return found


def numbers(scores: Mapping[str, Scores]) -> dict[str, dict[str, str]]:
    """The rows of a table: metric -> model -> number."""
    columns = {_COLUMNS[name]: found for name, found in scores.items()}
    rows = {
        "Bits per byte (lower is better)": {
            name: f"{found.bits_per_byte:.3f}" for name, found in columns.items()
        },
        "Tokens per sentence": {
            name: f"{found.tokens_per_sentence:.1f}" for name, found in columns.items()
        },
        "Bits per byte of English": {
            name: f"{found.english_bits_per_byte:.3f}"
            for name, found in columns.items()
            if found.english_bits_per_byte is not None
        },
    }
    return {name: row for name, row in rows.items() if row}


def conclusion(scores: Mapping[str, Scores]) -> str:
    """The result in one or two sentences."""
    source, adapted = scores["source"], scores["adapted"]
    ratio = source.tokens_per_sentence / adapted.tokens_per_sentence
    change = adapted.bits_per_byte / source.bits_per_byte - 1
    better = "better" if change < 0 else "worse"
    said = (
        f"The model needs {ratio:.1f} times fewer tokens for the same text, and predicts it "
        f"{abs(change):.1%} {better} than the source model."
    )
    if change >= 0:
        said += " More training (--minutes) or fewer new tokens may change that."
    return said


def write_model(
    study: "Study", cell: "Cell", scores: Mapping[str, Scores], license: str, folder: Path
) -> Path:
    """Put the exported model into `folder`/model, with a model card that includes the scores."""
    exported = Path(study.output("export_cell", **cell.wildcards))
    place = folder / MODEL
    facts = cell_facts(training(study, cell))
    facts = replace(
        facts,
        license=facts.license or license,
        numbers=numbers(scores),
        measured_on=(
            f"{scores['adapted'].sentences:,} sentences that were held out of training, each "
            f"scored separately. {conclusion(scores)}"
        ),
    )
    from lexigraft.source.model import load_tokenizer

    text = model_card(facts, load_tokenizer(exported), masked=False)
    with replacing_folder(place) as temporary:
        place_files(exported, temporary)
        (temporary / README).write_text(text, encoding="utf-8")
    return place


def place_files(exported: Path, folder: Path) -> None:
    """Put the files that the card of an export lists into a folder.

    Weights are hard links if the file system supports them, so that they are stored once. All other
    files are copies, so that editing them does not change the results.
    """
    for name in read_card(exported)["files"]:
        (folder / name).parent.mkdir(exist_ok=True)
        put = link_or_copy if name.endswith(".safetensors") else shutil.copyfile
        put(exported / name, folder / name)


def copy_report(study: "Study", folder: Path) -> Path:
    """Put the report's page into the folder."""
    page = Path(study.output("build_report"), REPORT)
    with replacing(folder / REPORT) as file:
        shutil.copyfile(page, file)
    return folder / REPORT


def hub_license(sources: Mapping[str, Any]) -> str:
    """The licence of the hub model in a study's own `sources`, if the hub is reachable."""
    from huggingface_hub import model_info

    name = next((entry["hub"] for entry in sources.values() if "hub" in entry), None)
    # The model is complete: on any error of hub or network, its licence is just unknown.
    with suppress(Exception):
        if name is not None and (card := model_info(name, timeout=10).card_data):
            return str(card.get("license") or "")
    return ""


def as_table(scores: Mapping[str, Scores]) -> "Table":
    """The numbers as a table for the terminal."""
    rows = numbers(scores)
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    table = new_table("", *columns)
    for name, row in rows.items():
        table.add_row(name, *(row.get(column, "–") for column in columns))
    return table
