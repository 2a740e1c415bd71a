"""One adaptation in a folder: the request, the choices, and the study that implements it."""

import json
from collections.abc import Iterator
from contextlib import chdir, contextmanager, suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lexigraft.artifacts.atomic import write_json
from lexigraft.errors import UserError
from lexigraft.gpus import devices
from workflow.adaptation.choices import NEW_TOKENS, NO_TRAINING, Budget, Choices, choose
from workflow.adaptation.outcome import (
    as_table,
    conclusion,
    copy_report,
    hub_license,
    scores_of,
    write_model,
)
from workflow.adaptation.request import Request, resolve_request
from workflow.adaptation.run import LOG, finished_part, run_study
from workflow.adaptation.study import (
    cells_of_adaptation,
    study_of_adaptation,
    study_text,
)
from workflow.config.checks import check_results_apart
from workflow.stages.study import open_study

if TYPE_CHECKING:
    from workflow.stages import Study

STATE, STUDY_FILE = "adapt.json", "study.yaml"
_DRAFT = ".draft.yaml"  # a study that is incomplete or not validated yet
# Files of a run that ended before it had chosen anything.
_EARLY = {_DRAFT, ".cache", ".snakemake", "results", LOG}


class Adaptation:
    """An adaptation in its folder.

    `adapt.json` in the folder contains the request, the choices for it, and the digest of the
    written study, so that the same command resumes the same study.
    """

    def __init__(self, request: Request, out: Path | None, baselines: bool, threads: int):
        """Read the text; raises a `UserError` if it or the request is invalid."""
        self.request, self.threads = request, threads
        self.facts, self.resolved = resolve_request(request, baselines)
        self.out = (out or Path(f"adapted-{self.resolved.source}-{self.resolved.code}")).resolve()
        check_results_apart(request.text, self.out)
        self.state = _read_state(self.out)

    def run(self) -> None:
        """Run all steps; finished ones are not repeated."""
        self.out.mkdir(parents=True, exist_ok=True)
        with chdir(self.out):
            resumed = self.state.get("request") == asdict(self.request)
            is_edited = self._is_edited()
            if not resumed:
                if is_edited:
                    raise UserError(
                        f"{self.out / STUDY_FILE}: has been edited, and other options would "
                        f"overwrite it; continue with `lexigraft run {STUDY_FILE}`, or choose "
                        "another --out"
                    )
                self.state = {"request": asdict(self.request), **asdict(self._choose())}
            chosen = _choices(self.state)
            for what, value, why in chosen.reasons:
                typer.echo(f"  {what:<12} {value}\n  {'':<12} {why}")
            study = self._study(chosen, is_edited)
            self._finish(study, chosen, resumed)

    def _choose(self) -> Choices:
        """Prepare the model with the study's own stage, and choose what depends on it.

        The study of that job already has the initializer: if its inputs are missing, it is rejected
        before anything is computed.
        """
        provisional = Choices(
            new_tokens=self.request.new_tokens or NEW_TOKENS,
            initializer=self.request.initializer,
            strategy=NO_TRAINING,
            budget=None,
            sizes={},
            phases=[],
            on_gpu=False,
            reasons=[],
        )
        with _draft(study_text(study_of_adaptation(self.resolved, provisional), _DRAFT)) as file:
            study = open_study(str(file))
            source = study.output("prepare_source", source=self.resolved.source)
            run_study(study, file, [source.card], self.threads)
        timed = self.request.tokens is None and self.request.strategy != NO_TRAINING
        typer.echo("Choosing the new tokens" + (" and timing training" if timed else ""))
        return choose(
            self.resolved,
            self.facts,
            source,
            new_tokens=self.request.new_tokens,
            initializer=self.request.initializer,
            strategy=self.request.strategy,
            tokens=self.request.tokens,
            minutes=self.request.minutes,
            threads=self.threads,
            on_gpu=bool(devices()),
        )

    def _study(self, chosen: Choices, is_edited: bool) -> "Study":
        """The study in the folder, written unless the user has edited it.

        A study that cannot be opened leaves the folder unchanged, so that the command can be run
        again with other options.
        """
        file = Path(STUDY_FILE)
        if is_edited:
            typer.echo(f"  {STUDY_FILE} has been edited; running it without changes")
            return open_study(STUDY_FILE)
        with _draft(study_text(study_of_adaptation(self.resolved, chosen), STUDY_FILE)) as draft:
            study = open_study(str(draft))
            self.state["study"] = _digest(draft)
            # In this order, so that if this is killed at any time, the next run rewrites the study.
            file.unlink(missing_ok=True)
            write_json(STATE, self.state)
            draft.replace(file)
        return study

    def _is_edited(self) -> bool:
        file = Path(STUDY_FILE)
        return file.is_file() and _digest(file) != self.state.get("study")

    def _finish(self, study: "Study", chosen: Choices, resumed: bool) -> None:
        from rich.console import Console

        cells = cells_of_adaptation(self.resolved, chosen)
        exported = study.output("export_cell", **cells["adapted"].wildcards)
        targets = [study.output("build_report").card, exported.card]
        if resumed and (part := finished_part(study, targets)):
            typer.echo(part)
        if not run_study(study, Path(STUDY_FILE), targets, self.threads):
            typer.echo("Nothing to do: everything is finished.")
        scores = scores_of(study, cells)
        licensed = study.config["sources"][self.resolved.source].get("license")
        license = "" if licensed else hub_license(self.resolved.sources)
        place = write_model(study, cells["adapted"], scores, license, self.out)
        page = copy_report(study, self.out)
        Console().print(as_table(scores))
        typer.echo(conclusion(scores))
        for name, file in (("Model", place), ("Report", page), ("Study", self.out / STUDY_FILE)):
            typer.echo(f"{name + ':':<8} {file}")


@contextmanager
def _draft(text: str) -> Iterator[Path]:
    """A file with this text, deleted at the end of the context unless it was renamed."""
    file = Path(_DRAFT)
    file.write_text(text, encoding="utf-8")
    try:
        yield file
    finally:
        file.unlink(missing_ok=True)


def _read_state(out: Path) -> dict[str, Any]:
    """The content of `adapt.json`; raises a `UserError` if the folder has other content."""
    with suppress(OSError, ValueError):
        state: dict[str, Any] = json.loads((out / STATE).read_text(encoding="utf-8"))
        return state
    if out.exists() and (not out.is_dir() or not {path.name for path in out.iterdir()} <= _EARLY):
        raise UserError(f"--out: {out} already exists with other content; choose another folder")
    return {}


def _choices(state: dict[str, Any]) -> Choices:
    given = {key: value for key, value in state.items() if key not in ("request", "study")}
    budget = given.pop("budget")
    return Choices(**given, budget=budget and Budget(**budget))


def _digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()
