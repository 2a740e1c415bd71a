"""`lexigraft adapt` in its folder: write a study, run it, export the adapted model."""

import json
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, suppress
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from rich.console import Console

from lexigraft.artifacts.atomic import atomic_file, write_json
from lexigraft.artifacts.cards import read_card, write_card
from lexigraft.errors import UserError
from workflow.adaptation.choices import NEW_TOKENS, choose
from workflow.adaptation.progress import LOG, run_snakemake
from workflow.adaptation.study import NO_TRAINING, Adaptation, Choices, Request
from workflow.adaptation.text import measure_text
from workflow.commands.tables import new_table
from workflow.config.checks import check_results_apart
from workflow.config.registries import open_study

if TYPE_CHECKING:
    from lexigraft.cells import Cell
    from workflow.study import Study

STATE, STUDY_FILE, MODEL, REPORT = "adapt.json", "study.yaml", "model", "report.html"
_DRAFT = ".draft.yaml"  # a study that is incomplete or not validated yet
# Files of a run that ended before it had chosen anything.
_EARLY = {_DRAFT, ".cache", ".snakemake", "results", LOG}
_COLUMNS = {"source": "source model", "LAPT": "LAPT", "adapted": "this model"}


class Scores(NamedTuple):
    """Scores of a model on the held-out text."""

    bits_per_byte: float
    tokens_per_sentence: float
    english_bits_per_byte: float | None
    sentences: int


def adapt(request: Request, out: Path | None, baselines: bool, threads: int) -> None:
    """Run all steps in the folder; finished ones are not repeated.

    `adapt.json` in it contains the request, the choices and the digest of the written study, so
    that the same command resumes the same study.
    """
    request.check()
    facts = measure_text(
        request.text_settings(),
        "--dataset" if request.dataset else "--text",
        language=request.language,
        reading=request.reading,
    )
    adaptation = Adaptation(request, facts, baselines)
    out = (out or Path(f"adapted-{adaptation.source}-{adaptation.code}")).resolve()
    check_results_apart(request.text, out)
    state: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        state = json.loads((out / STATE).read_text(encoding="utf-8"))
    is_early = out.is_dir() and {path.name for path in out.iterdir()} <= _EARLY
    if not state and out.exists() and not is_early:
        raise UserError(f"--out: {out} already exists with other content; choose another folder")
    out.mkdir(parents=True, exist_ok=True)
    with chdir(out):
        file = Path(STUDY_FILE)
        # Before version 0.3, `adapt.json` had no `choices`.
        is_resumed = state.get("request") == asdict(request) and "choices" in state
        is_edited = file.is_file() and _digest(file) != state.get("study")
        if is_resumed:
            choices = Choices(**state["choices"])
        elif is_edited:
            raise UserError(
                f"{file.resolve()}: has been edited, and other options would overwrite it; "
                f"continue with `lexigraft run {STUDY_FILE}`, or choose another --out"
            )
        else:
            source = _prepare_source(adaptation, threads)
            typer.echo("Choosing the new tokens and the amount of training")
            choices = choose(adaptation, facts, source, threads)
        for subject, choice, reason in choices.reasons:
            typer.echo(f"  {subject:<12} {choice}\n  {'':<12} {reason}")
        if is_edited:
            typer.echo(f"  {STUDY_FILE} has been edited; running it without changes")
        else:
            # If the study cannot be opened, the folder is unchanged: other options can be tried.
            with _draft(adaptation.study(choices, STUDY_FILE)) as draft:
                open_study(str(draft))
                state = {"request": asdict(request), "choices": asdict(choices)}
                # In this order, so that if this is killed, the next run rewrites the study.
                file.unlink(missing_ok=True)
                write_json(STATE, state | {"study": _digest(draft)})
                draft.replace(file)
        cells = adaptation.cells(choices)
        if is_resumed and any(Path("results").glob("training/**/checkpoints/*/phase-*")):
            typer.echo("Resuming; training continues from its last checkpoint.")
        study = open_study(STUDY_FILE)
        trained = study.card("train", **cells["adapted"].wildcards)
        if not run_snakemake(STUDY_FILE, [study.card("build_report"), trained], threads):
            typer.echo("Nothing to do: everything is finished.")
        _show_outcome(adaptation, study, cells)


def _prepare_source(adaptation: Adaptation, threads: int) -> Path:
    """Prepare the model with the study's own stage, for choices that depend on it.

    The study of that job already has the initializer, to reject it before anything is computed.
    """
    tokens = adaptation.request.new_tokens or NEW_TOKENS
    provisional = Choices(tokens, NO_TRAINING, None, sizes={}, reasons=[])
    with _draft(adaptation.study(provisional, _DRAFT)) as draft:
        card = open_study(str(draft)).card("prepare_source", source=adaptation.source)
        run_snakemake(str(draft), [card], threads)
    return Path(card).parent


@contextmanager
def _draft(text: str) -> Iterator[Path]:
    """A file with this text, deleted at the end of the context unless it was renamed."""
    file = Path(_DRAFT)
    file.write_text(text, encoding="utf-8")
    try:
        yield file
    finally:
        file.unlink(missing_ok=True)


def _digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


def _show_outcome(adaptation: Adaptation, study: "Study", cells: Mapping[str, "Cell"]) -> None:
    """Export the model, and show the scores and what is where."""
    scores = {}
    for name, cell in cells.items():
        file = Path(study.folder("evaluate", **cell.wildcards), "perplexity/run-0/record.json")
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise UserError(f"{file}: cannot be read; run the same command again") from None
        metrics, sentences = record["metrics"], record["details"]["heldout"]["sentences"]
        english = metrics.get("english_bits_per_byte")
        length = metrics["tokens"] / sentences
        scores[name] = Scores(metrics["bits_per_byte"], length, english, sentences)
    model = _export(adaptation, study, cells["adapted"], scores)
    with atomic_file(Path(REPORT)) as page:
        page.write_bytes(Path(study.folder("build_report"), REPORT).read_bytes())
    table = new_table("", *(_COLUMNS[name] for name in scores))
    for title, row in numbers(scores).items():
        table.add_row(title, *row.values())
    Console().print(table)
    typer.echo(conclusion(scores))
    for name, path in (("Model", model), ("Report", REPORT), ("Study", STUDY_FILE)):
        typer.echo(f"{name + ':':<8} {Path(path).resolve()}")


def numbers(scores: Mapping[str, Scores]) -> dict[str, dict[str, str]]:
    """The rows of a table: metric -> model -> number."""
    columns = (
        ("Bits per byte (lower is better)", "bits_per_byte", ".3f"),
        ("Tokens per sentence", "tokens_per_sentence", ".1f"),
        ("Bits per byte of English", "english_bits_per_byte", ".3f"),
    )
    return {
        title: {_COLUMNS[name]: format(getattr(score, key), form) for name, score in scores.items()}
        for title, key, form in columns
        if all(getattr(score, key) is not None for score in scores.values())
    }


def conclusion(scores: Mapping[str, Scores]) -> str:
    """The result in one or two sentences."""
    source, adapted = scores["source"], scores["adapted"]
    ratio = source.tokens_per_sentence / adapted.tokens_per_sentence
    change = adapted.bits_per_byte / source.bits_per_byte - 1
    text = (
        f"The model needs {ratio:.1f} times fewer tokens for the same text, and predicts it "
        f"{abs(change):.1%} {'better' if change < 0 else 'worse'} than the source model."
    )
    advice = " More training (--minutes) or fewer new tokens may change that."
    return text if change < 0 else text + advice


def _export(
    adaptation: Adaptation, study: "Study", cell: "Cell", scores: Mapping[str, Scores]
) -> Path:
    """Export the model unless that is done, with a model card that includes the scores."""
    from lexigraft.model_card import README, model_card
    from lexigraft.source.tokenizer import load_tokenizer
    from lexigraft.training.export import cell_facts, export

    trained, folder = Path(study.folder("train", **cell.wildcards)), Path(MODEL)
    with suppress(OSError, ValueError, UserError):
        if read_card(folder)["job"] == read_card(trained)["job"]:
            return folder
    export(trained, folder)
    card, facts = read_card(folder), cell_facts(trained)
    facts = replace(
        facts,
        numbers=numbers(scores),
        measured_on=(
            f"{scores['adapted'].sentences:,} sentences that were held out of training, each "
            f"scored separately. {conclusion(scores)}"
        ),
    )
    text = model_card(facts, load_tokenizer(folder), masked=False)
    (folder / README).write_text(text, encoding="utf-8")
    write_card(folder, card["job"], card["files"], exported_cell=card["exported_cell"])
    return folder
