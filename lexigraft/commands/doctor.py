"""Check whether this machine has what lexigraft needs: for `lexigraft doctor`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import Request, urlopen

import typer
from packaging.requirements import Requirement

import lexigraft
from lexigraft.addresses import without_secrets
from lexigraft.errors import UserError
from lexigraft.gpus import devices
from lexigraft.installation import PIPELINE

OK, ABSENT, IMPOSSIBLE = "ok", "absent", "missing"
_COLOURS = {OK: "green", ABSENT: "yellow", IMPOSSIBLE: "red"}
_LEAST_MEMORY, _LEAST_DISK = 4, 10  # GB that the default study needs
_SECONDS = 5  # timeout of the hub


class Diagnosis(NamedTuple):
    """The result of a check: `ok`, `absent` (only some studies need it) or `missing` (all do)."""

    state: str
    fact: str
    remedy: str = ""


def check_machine() -> None:
    """Print the results of all checks; exit code 1 if anything is missing."""
    state = OK
    for check in CHECKS:
        for diagnosis in check():
            typer.secho(diagnosis.state.ljust(8), fg=_COLOURS[diagnosis.state], nl=False)
            typer.echo(diagnosis.fact)
            if diagnosis.remedy:
                typer.echo(f"        {diagnosis.remedy}")
            state = IMPOSSIBLE if IMPOSSIBLE in (state, diagnosis.state) else state
    if state == IMPOSSIBLE:
        raise typer.Exit(1)


def check_versions() -> Iterator[Diagnosis]:
    """Check Python, lexigraft, and the packages that its metadata requires."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Diagnosis(OK, f"lexigraft {lexigraft.__version__} in {PIPELINE}, Python {version}")
    try:
        lines = metadata.requires("lexigraft") or []
    except metadata.PackageNotFoundError:
        yield Diagnosis(
            ABSENT, "lexigraft is not installed, only found on the path", "pip install lexigraft"
        )
        return
    needed: dict[bool, list[Requirement]] = {True: [], False: []}  # by whether the library needs it
    for requirement in map(Requirement, lines):
        extras = ("", "workflow", "metrics")
        marker = requirement.marker
        if requirement.name != "lexigraft" and (
            marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)
        ):
            needed[marker is None or marker.evaluate({"extra": ""})].append(requirement)
    for package, purpose, state, requirements in (
        ("lexigraft", "the library needs", IMPOSSIBLE, needed[True]),
        ("'lexigraft[workflow]'", "studies need", ABSENT, needed[False]),
    ):
        problems = []
        for requirement in requirements:
            try:
                version = metadata.version(requirement.name)
            except metadata.PackageNotFoundError:
                problems.append(f"{requirement.name} is not installed")
                continue
            if not requirement.specifier.contains(version, prereleases=True):
                problems.append(f"{requirement.name} is {version}, not {requirement.specifier}")
        if problems:
            fact = f"packages that {purpose}: {', '.join(problems)}"
            yield Diagnosis(state, fact, f"pip install {package}")
        else:
            yield Diagnosis(OK, f"packages that {purpose}: all {len(requirements)}")


def check_device() -> Iterator[Diagnosis]:
    """Check GPUs and the numerical precision."""
    if find_spec("torch") is None:
        return  # reported by check_versions
    import torch

    from lexigraft.hardware import precision

    names = devices()
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        first = torch.cuda.get_device_properties(0)
        yield Diagnosis(OK, f"{count} × {first.name}, {first.total_memory / 2**30:.0f} GiB")
    elif names:
        yield Diagnosis(
            ABSENT,
            f"{len(names)} GPUs, which this build of torch ({torch.__version__}) cannot use",
            "install the build of torch for their driver: https://pytorch.org/get-started/locally",
        )
    else:
        yield Diagnosis(
            ABSENT, "no GPU; everything runs on the CPU, which is enough for models below 1 B"
        )
    try:
        yield Diagnosis(OK, f"computes in {str(precision()).removeprefix('torch.')}")
    except UserError as error:
        yield Diagnosis(IMPOSSIBLE, str(error), "correct or unset the variable")
    if torch.cuda.is_available() and find_spec("vllm") is None:
        yield Diagnosis(ABSENT, "vllm, for faster generation", "pip install 'lexigraft[gpu]'")


def check_room() -> Iterator[Diagnosis]:
    """Check memory, and disk space in the working folder."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    cores = len(os.sched_getaffinity(0))
    enough = memory >= _LEAST_MEMORY
    yield Diagnosis(
        OK if enough else IMPOSSIBLE,
        f"{memory:.0f} GB of memory, {cores} cores",
        "" if enough else f"at least {_LEAST_MEMORY} GB are needed",
    )
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    enough = free >= _LEAST_DISK
    yield Diagnosis(
        OK if enough else ABSENT,
        f"{free:.0f} GB free in {Path.cwd()}",
        "" if enough else "make room, or set `prefix` in the study (docs/sharing.md)",
    )
    if not os.access(Path.cwd(), os.W_OK):
        yield Diagnosis(
            IMPOSSIBLE, f"{Path.cwd()} is not writable", "start in a folder that you can write to"
        )


def check_slurm() -> Iterator[Diagnosis]:
    """Check Slurm's commands, which only clusters need."""
    if shutil.which("sbatch") is None:
        yield Diagnosis(ABSENT, "Slurm; studies run on this machine, not with --profile slurm")
        return
    try:
        command = ["sinfo", "--noheader", "--format=%R"]
        output = subprocess.check_output(
            command, stderr=subprocess.DEVNULL, text=True, timeout=_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        yield Diagnosis(ABSENT, "Slurm is installed but does not answer", "try: sinfo")
        return
    yield Diagnosis(OK, f"Slurm with partitions {', '.join(dict.fromkeys(output.split()))}")


def check_hub() -> Iterator[Diagnosis]:
    """Check the Hugging Face hub: connection, login, and its cache."""
    if find_spec("huggingface_hub") is None:
        return

    from huggingface_hub import constants, get_token

    cache = Path(constants.HF_HUB_CACHE)
    existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
    if os.access(existing, os.W_OK):
        free = shutil.disk_usage(existing).free / 1e9
        yield Diagnosis(OK, f"cache of the hub in {cache}, {free:.0f} GB free")
    else:
        yield Diagnosis(ABSENT, f"cache of the hub {cache} is not writable", "set HF_HOME")
    if constants.HF_HUB_OFFLINE:
        yield Diagnosis(ABSENT, "the hub is disabled by HF_HUB_OFFLINE; only its cache is read")
        return
    endpoint = without_secrets(constants.ENDPOINT)  # urlopen cannot use a login
    try:
        urlopen(Request(endpoint, method="HEAD"), timeout=_SECONDS).close()
    except (URLError, OSError, ValueError) as error:
        cause = getattr(error, "reason", error)
        yield Diagnosis(
            ABSENT,
            f"{endpoint} cannot be reached ({cause})",
            "use models from folders or packages (`lexigraft list models`), or set HF_ENDPOINT to "
            "a mirror",
        )
        return
    if get_token():
        yield Diagnosis(OK, f"{endpoint} is reachable, with a token")
        return
    remedy = "`hf auth login`, for models whose terms must be accepted"
    yield Diagnosis(OK, f"{endpoint} is reachable, without a token", remedy)


def check_extras() -> Iterator[Diagnosis]:
    """Check the environment of learned metrics and the fonts of figures."""
    python = Path(".venv-metrics/bin/python")
    fact = "environment of learned metrics (COMET, BLEURT)"
    if python.exists() or (PIPELINE / python).exists():
        yield Diagnosis(OK, fact)
    else:
        yield Diagnosis(
            ABSENT,
            fact,
            f"python3.11 -m venv .venv-metrics; {python} -m pip install "
            f"-c {PIPELINE / 'envs/metrics.lock'} -r {PIPELINE / 'envs/metrics.txt'}",
        )
    if find_spec("matplotlib") is None:
        return
    fonts = list(Path(".cache/packages").glob("kolibri-*/kolibri/core/static/assets/fonts/*"))
    if fonts:
        yield Diagnosis(OK, f"fonts of figures: {len(fonts)} in .cache/packages")
    else:
        yield Diagnosis(
            ABSENT, "fonts of figures for all scripts; a study fetches them before its report"
        )


CHECKS: tuple[Callable[[], Iterator[Diagnosis]], ...] = (
    check_versions,
    check_device,
    check_room,
    check_slurm,
    check_hub,
    check_extras,
)
