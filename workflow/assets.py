"""What the jobs of a study read from elsewhere: the hub, the web, packages, the user's own files.

Collected from the descriptions of the jobs, so that everything read is checked. A run locks the
commits of what it reads from the hub; `lexigraft doctor --study` asks for all of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
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
    ask_web,
)
from lexigraft.source.revision_lock import REVISIONS_FILE, add, lock, read_lock
from workflow.config.revisions import assets_in
from workflow.jobs import Job
from workflow.recipes import FileRecipe, local_files, needed_recipes, recipes_of
from workflow.study import Study

LOCKED, TO_FETCH, BY_HAND = "locked", "to fetch", "by hand"
READABLE = (*USABLE, LOCKED)  # states that do not prevent a run
# Wildcards that name a job for the user, the most telling first; otherwise its rule.
_NAMING = ("metric", "initializer", "task", "benchmark", "vocabulary", "tokenizer", "language",
           "source")  # fmt: skip
_THREADS = 8  # simultaneous requests
_UNASKED = HubAnswer(OK)


@dataclass(frozen=True)
class CheckedAsset(HubAsset):
    """An asset that a study reads (also of kind `file` or `package`), and the answer about it."""

    answer: HubAnswer = _UNASKED


Check = tuple[HubAsset, Callable[[], HubAnswer]]


# ---- assets of jobs -----------------------------------------------------------------------------


def hub_assets(jobs: Iterable[Job]) -> list[HubAsset]:
    """What jobs read from the hub, each revision of each asset once, with its readers.

    The tokenizer of a model that is read as well is not listed separately.
    """
    reads: dict[tuple[Any, str, str | None], list[tuple[str, tuple[str, ...]]]] = {}
    for job in jobs:
        is_encoder = job.description.get("settings", {}).get("kind") == "sentence-encoder"
        hub = "model" if job.rule == "prepare_source" else "encoder" if is_encoder else "tokenizer"
        for reader, settings in _settings(job):
            for asset in assets_in(settings, hub):
                key = (asset.kind, asset.name, asset.revision)
                reads.setdefault(key, []).append((reader, asset.files))
    assets = []
    for (kind, name, revision), readers in reads.items():
        if kind == "tokenizer" and ("model", name, revision) in reads:
            continue
        patterns = [files for _, files in readers]
        # A reader without patterns may read any file.
        every = {pattern for files in patterns for pattern in files} if all(patterns) else ()
        where = ", ".join(dict.fromkeys(reader for reader, _ in readers))
        assets.append(HubAsset(kind, name, revision, tuple(sorted(every)), where))
    return assets


def lock_revisions(study: Study, jobs: Iterable[Job]) -> str:
    """Lock the commits of what planned jobs read from the hub; return a warning about unknown ones.

    The study's settings then contain these commits. Data sets of lm-evaluation-harness are locked
    by the jobs that copy them.
    """
    assets = [asset for asset in hub_assets(jobs) if not asset.is_pinned]
    if not assets:
        return ""
    locked = lock(study.results, assets)
    study.take_commits()
    unknown = sorted({asset.name for asset in assets if asset.key not in locked})
    if not unknown:
        return ""
    return (
        f"no commit is known for {', '.join(unknown)}: the hub did not report one. Jobs read the "
        "version that they find; the next run that finds a commit repeats them"
    )


def web_files(jobs: Iterable[Job]) -> dict[str, str]:
    """URL of each file on the web that jobs read -> its readers."""
    readers: dict[str, dict[str, None]] = {}
    for job in jobs:
        for reader, settings in _settings(job):
            for url in _urls(settings):
                readers.setdefault(url, {})[reader] = None
    return {url: ", ".join(names) for url, names in readers.items()}


def _urls(settings: Any) -> Iterator[str]:
    """The URLs among the files of data sets in settings."""
    if isinstance(settings, Mapping):
        files = settings.get("data_files") or ()
        for file in [files] if isinstance(files, str) else files:
            if file.startswith(("https://", "http://")):
                yield file
        settings = list(settings.values())
    if isinstance(settings, list | tuple):
        for value in settings:
            yield from _urls(value)


def _settings(job: Job) -> Iterator[tuple[str, Any]]:
    """The name of a job as a reader, and its settings; for an evaluation also each task's."""
    if job.rule == "build_report":
        return  # its settings repeat the study
    names = (job.wildcards[axis] for axis in _NAMING if axis in job.wildcards)
    yield next(names, job.rule), job.description.get("settings", {})
    for task, description in job.description.get("tasks", {}).items():
        yield task, description["settings"]


# ---- checks -------------------------------------------------------------------------------------


def check_assets(study: Study, jobs: Mapping[str, Job]) -> list[CheckedAsset]:
    """Check all assets of a study, and lock the commits that the hub reports (`revision_lock`)."""
    checks = [*_checks(study, jobs)]
    with ThreadPoolExecutor(_THREADS) as pool:
        answers = pool.map(lambda check: check[1](), checks)
        asked = zip(checks, answers, strict=True)
        results = [CheckedAsset(**vars(asset), answer=answer) for (asset, _), answer in asked]
    unpinned = {result.key: result for result in results if result.answer.state == NOT_PINNED}
    commits = {key: result.answer.commit for key, result in unpinned.items()}
    known = {key: commit for key, commit in commits.items() if commit}
    locked = add(study.results, known) if known else {}
    for number, result in enumerate(results):
        if result.answer.state == NOT_PINNED and (commit := locked.get(result.key)):
            branch = result.revision or "no revision"
            detail = f"{branch}, locked at {commit[:12]} in {REVISIONS_FILE}"
            answer = replace(result.answer, state=LOCKED, detail=detail)
            results[number] = replace(result, answer=answer)
    return results


def _checks(study: Study, jobs: Mapping[str, Job]) -> Iterator[Check]:
    """What jobs read on the hub, on the web, in packages, and missing files of the user."""
    locked = {commit: key for key, commit in read_lock(study.results).items()}
    for asset in sorted(hub_assets(jobs.values()), key=lambda asset: (asset.kind, asset.name)):
        repository, _, branch = locked.get(asset.revision or "", "").partition("@")
        if repository and repository == asset.key.partition("@")[0]:
            yield replace(asset, revision=branch), partial(_ask_locked, asset, branch)
        else:
            yield asset, partial(ask_hub, asset)
    for asset in _benchmark_data(jobs):
        yield asset, partial(_ask_benchmark, asset)
    for url, readers in web_files(jobs.values()).items():
        yield HubAsset("file", without_secrets(url), where=readers), partial(ask_web, url)
    recipes = recipes_of(local_files(jobs.values()), study.files).values()
    for recipe in {recipe.path: recipe for recipe in recipes}.values():
        if recipe.url and (recorded := recipe.recorded()):
            asset = HubAsset("file", recipe.path, where=f"files.{recipe.name}")
            yield asset, partial(ask_web, recipe.url, recorded)
    for job in jobs.values():
        if job.rule == "fetch_package":
            settings = job.description["settings"]
            name = f"{settings['name']} {settings['version']}"
            unpacked = partial(HubAnswer, OK, "unpacked")
            ask = unpacked if Path(job.card).exists() else partial(ask_package, settings)
            yield HubAsset("package", name, where=settings["registry"]), ask
    missing, unknown = needed_recipes(jobs.values(), study.files)
    for recipe in missing:
        asset = HubAsset("file", recipe.path, where=f"files.{recipe.name}")
        yield asset, partial(_ask_recipe, recipe)
    for path in unknown:
        yield HubAsset("file", path, where="the study"), partial(HubAnswer, MISSING)


def _ask_locked(asset: HubAsset, branch: str) -> HubAnswer:
    """The hub's answer for a locked commit, and whether its branch has moved since."""
    answer = ask_hub(asset)
    if answer.state != OK:
        return answer
    commit, today = asset.revision or "", ask_hub(replace(asset, revision=branch)).commit
    moved = f"; on the hub, it is at {today[:12]} today" if today and today != commit else ""
    return replace(answer, state=LOCKED, detail=f"{branch}, locked at {commit[:12]}{moved}")


def _benchmark_data(jobs: Mapping[str, Job]) -> list[HubAsset]:
    """Data sets of a study's benchmarks that are neither prepared nor in the user's folder."""
    tasks_in: dict[str, dict[str, str | None]] = {}
    for job in jobs.values():
        if job.rule == "prepare_benchmark" and not Path(job.card).exists():
            settings = job.description["settings"]
            tasks_in.setdefault(settings["folder"], {})[settings["task"]] = settings["data"]
    if not tasks_in:
        return []
    from lexigraft.evaluation.harness.benchmarks import data_sets_of

    readers: dict[HubAsset, list[str]] = {}
    for folder, tasks in tasks_in.items():
        for task, assets in data_sets_of(list(tasks), folder).items():
            for asset in assets:
                own_folder = tasks[task]
                if not (own_folder and Path(own_folder, asset.name).expanduser().is_dir()):
                    readers.setdefault(asset, []).append(task)
    return [replace(asset, where=", ".join(names)) for asset, names in readers.items()]


def _ask_benchmark(asset: HubAsset) -> HubAnswer:
    """Check a data set; if it has a loading script, check its Parquet copy on the hub instead."""
    answer = ask_hub(asset)
    if answer.detail != SCRIPT_ALONE:
        return answer
    # Without the commit, which belongs to another branch than the one in the list.
    return replace(ask_hub(replace(asset, revision=PARQUET)), commit=None)


def _ask_recipe(recipe: FileRecipe) -> HubAnswer:
    if recipe.url is None:
        return HubAnswer(BY_HAND, recipe.entry.by_hand)
    answer = ask_web(recipe.url)
    if answer.state != OK:
        return replace(answer, detail=f"{answer.detail}: {without_secrets(recipe.url)}")
    terms = f"; its terms: {recipe.entry.terms}" if recipe.entry.terms else ""
    return replace(answer, state=TO_FETCH, detail=f"`lexigraft fetch`{terms}")
