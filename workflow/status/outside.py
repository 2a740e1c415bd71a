"""All external assets that the jobs of a study read, with their readers.

For `lexigraft doctor --study`: assets on the hub, data sets of lm-evaluation-harness, files on the
web, packages, and missing local files.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lexigraft.addresses import without_secrets
from lexigraft.bundled.packages import ask_package
from lexigraft.source.hub_check import (
    MISSING,
    NOT_PINNED,
    OK,
    PARQUET,
    SCRIPT_ALONE,
    USABLE,
    HubAnswer,
    HubAsset,
    ask_hub,
)
from lexigraft.source.revision_lock import LOCK, add, read_lock
from lexigraft.source.web_check import ask_web
from workflow.stages.stage import STAGES
from workflow.stages.study import Study
from workflow.status.assets import hub_assets, local_files, web_files
from workflow.status.recipes import needed_recipes, recipes_of

LOCKED, TO_FETCH, BY_HAND = "locked", "to fetch", "by hand"
FINE = (*USABLE, LOCKED)  # states that do not prevent a run
_THREADS = 8  # simultaneous requests
_Ask = Callable[[], HubAnswer]


@dataclass(frozen=True)
class Checked:
    """An asset that a study reads, and the result of its check."""

    kind: str
    name: str
    where: str  # its readers
    answer: HubAnswer
    revision: str | None = None


def ask_all(study: Study) -> list[Checked]:
    """Check all assets of a study, and lock the commits that the hub reports (`revision_lock`)."""
    found: list[Checked] = []
    waiting: list[tuple[Checked, _Ask]] = [*_of_hub(study), *_of_web(study), *_of_packages(study)]
    with ThreadPoolExecutor(_THREADS) as pool:
        answers = pool.map(lambda one: one[1](), waiting)
        found += [replace(one, answer=got) for (one, _), got in zip(waiting, answers, strict=True)]
    commits = {
        HubAsset(one.kind, one.name, one.revision).key: one.answer.commit  # type: ignore[arg-type]
        for one in found
        if one.answer.state == NOT_PINNED and one.answer.commit
    }
    locked = add(study.results, commits) if commits else {}
    found = [_as_locked(one, locked) for one in found]
    return found + _local(study)


def _as_locked(asked: Checked, locked: dict[str, str]) -> Checked:
    """An asset that is not pinned, with its locked commit if there is one."""
    if asked.answer.state != NOT_PINNED:
        return asked
    key = HubAsset(asked.kind, asked.name, asked.revision).key  # type: ignore[arg-type]
    if key not in locked:
        return asked
    detail = f"{asked.revision or 'no revision'}, locked at {locked[key][:12]} in {LOCK}"
    return replace(asked, answer=replace(asked.answer, state=LOCKED, detail=detail))


# ---- the hub -----------------------------------------------------------------------------------


def _of_hub(study: Study) -> Iterator[tuple[Checked, _Ask]]:
    locked = {commit: key for key, commit in read_lock(study.results).items()}
    for asset in sorted(hub_assets(study), key=lambda one: (one.kind, one.name)):
        shown = Checked(asset.kind, asset.name, asset.where, HubAnswer(OK), asset.revision)
        key = locked.get(asset.revision or "", "")
        if key.startswith(asset.key.partition("@")[0] + "@"):
            branch = key.partition("@")[2]
            yield replace(shown, revision=branch), partial(_compared, asset, branch)
        else:
            yield shown, partial(ask_hub, asset)
    for asset in _of_harness(study):
        shown = Checked(asset.kind, asset.name, asset.where, HubAnswer(OK), asset.revision)
        yield shown, partial(_of_benchmark, asset)


def _compared(asset: HubAsset, branch: str) -> HubAnswer:
    """The hub's answer for a locked commit, and whether its branch has moved since."""
    answer = ask_hub(asset)
    if answer.state != OK:
        return answer
    commit, today = asset.revision or "", ask_hub(replace(asset, revision=branch)).commit
    moved = f"; on the hub, it is at {today[:12]} today" if today and today != commit else ""
    return replace(answer, state=LOCKED, detail=f"{branch}, locked at {commit[:12]}{moved}")


def _of_harness(study: Study) -> list[HubAsset]:
    """Data sets of a study's benchmarks that are neither prepared nor in the user's folder."""
    wanted: dict[str, dict[str, str | None]] = {}
    for job in study.jobs().values():
        if job.rule == "prepare_benchmark" and not Path(job.output.card).exists():
            described = STAGES[job.rule].describe(study, **job.output.wildcards)["settings"]
            wanted.setdefault(described["folder"], {})[described["task"]] = described["data"]
    if not wanted:
        return []
    from lexigraft.evaluation.harness.benchmarks import data_sets_of

    readers: dict[HubAsset, list[str]] = {}
    for folder, tasks in wanted.items():
        for task, assets in data_sets_of(list(tasks), folder).items():
            for one in assets:
                if not (tasks[task] and Path(tasks[task] or "", one.name).expanduser().is_dir()):
                    readers.setdefault(one, []).append(task)
    return [replace(one, where=", ".join(named)) for one, named in readers.items()]


def _of_benchmark(asset: HubAsset) -> HubAnswer:
    """Check a data set; if it has a loading script, check its Parquet copy on the hub instead."""
    answer = ask_hub(asset)
    if answer.detail != SCRIPT_ALONE:
        return answer
    answer = ask_hub(replace(asset, revision=PARQUET))
    return replace(answer, commit=None)  # it belongs to another branch than the one shown


# ---- the web -----------------------------------------------------------------------------------


def _of_web(study: Study) -> Iterator[tuple[Checked, _Ask]]:
    for url, where in web_files(study).items():
        yield Checked("file", without_secrets(url), where, HubAnswer(OK)), partial(ask_web, url)
    known = recipes_of(local_files(study), study.config["files"])
    for recipe in {one.path: one for one in known.values()}.values():
        if recipe.url and (recorded := recipe.recorded()):
            shown = Checked("file", recipe.path, f"files.{recipe.name}", HubAnswer(OK))
            yield shown, partial(ask_web, recipe.url, recorded)


def _of_packages(study: Study) -> Iterator[tuple[Checked, _Ask]]:
    for job in study.jobs().values():
        if job.rule == "fetch_package":
            settings = STAGES[job.rule].describe(study, **job.output.wildcards)["settings"]
            name = f"{settings['name']} {settings['version']}"
            shown = Checked("package", name, settings["registry"], HubAnswer(OK))
            here = Path(job.output.card).exists()
            yield (
                shown,
                partial(HubAnswer, OK, "unpacked") if here else partial(ask_package, settings),
            )


def _local(study: Study) -> list[Checked]:
    """The user's missing files: how to download or create them."""
    recipes, others = needed_recipes(study)
    with ThreadPoolExecutor(_THREADS) as pool:
        answers = pool.map(lambda one: _answer_of(one.url, one.entry), recipes)
        found = [
            Checked("file", recipe.path, f"files.{recipe.name}", answer)
            for recipe, answer in zip(recipes, answers, strict=True)
        ]
    return found + [Checked("file", file, "the study", HubAnswer(MISSING)) for file in others]


def _answer_of(url: str | None, entry: Mapping[str, Any]) -> HubAnswer:
    if url is None:
        return HubAnswer(BY_HAND, entry["by_hand"])
    answer = ask_web(url)
    if answer.state != OK:
        return replace(answer, detail=f"{answer.detail}: {without_secrets(url)}")
    terms = f"; its terms: {entry['terms']}" if "terms" in entry else ""
    return replace(answer, state=TO_FETCH, detail=f"`lexigraft fetch`{terms}")
