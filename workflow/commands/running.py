"""Commands that start Snakemake on a study, and the options that they pass for this machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Annotated

import psutil
import typer

from lexigraft.errors import UserError
from lexigraft.gpus import local_limit
from lexigraft.installation import PIPELINE
from workflow.commands.studies import StudyFile, cell_named, study_of

MEMORY_SHARE = 0.8  # of the machine's memory; Snakemake starts no job that would exceed it


def run(context: typer.Context, study: StudyFile) -> None:
    """Run a study, or resume it.

    Everything after the study is passed to Snakemake: `-n` to see its plan, `--cores 4`,
    `--profile slurm`, a file to create or `--until train`. Without such options, the study runs on
    this machine with all of its cores and GPUs and four fifths of its memory. Finished jobs are not
    repeated.

        lexigraft run my-study.yaml

        lexigraft run my-study.yaml --profile slurm
    """
    study_of(study)  # reports errors in one line, before Snakemake starts
    command = snakemake_command(study, context.args)
    os.execve(command[0], command, snakemake_environment())


def export(
    context: typer.Context,
    study: StudyFile,
    cell: Annotated[
        str,
        typer.Argument(
            metavar="CELL",
            help="Names that identify one cell, such as my-te/expand-500/align; or `recommended`, "
            "the one that the report recommends (`recommended/my-te` if there are several).",
        ),
    ],
    to: Annotated[
        Path, typer.Option("--to", help="The output folder: a new one, or an earlier export.")
    ],
    gguf: Annotated[
        bool, typer.Option("--gguf", help="Also write model.gguf, for llama.cpp, in float16.")
    ] = False,
    delta: Annotated[
        bool,
        typer.Option(
            "--delta",
            help="Write only what differs from the source model: new rows, changed tensors, "
            "adapter, tokenizer. README.md has the code that rebuilds the model.",
        ),
    ] = False,
) -> None:
    """Write an adapted model as a plain Hugging Face folder, which loads without lexigraft.

    A cell that is not trained yet is trained first; options after the cell are then passed to
    Snakemake.

        lexigraft export my-study.yaml recommended --to adapted-model
    """
    from lexigraft.training.export import check_replaceable
    from lexigraft.training.export import export as write
    from lexigraft.training.llama_cpp import check_converter

    if gguf and delta:
        raise UserError("--gguf and --delta: a GGUF file needs the whole model; give only one")
    resolved = study_of(study)
    chosen = cell_named(resolved, cell)
    check_replaceable(to)
    if gguf:
        check_converter()
    card = resolved.card("train", **chosen.wildcards)
    if not Path(card).is_file():
        typer.echo(f"{chosen.path} is not trained yet; training it first")
        code = run_to_its_end(snakemake_command(study, [*context.args, "--", card]))
        if code or not Path(card).is_file():
            raise UserError(f"{chosen.path}: was not trained, see above; nothing was exported")
    os.environ.update(resolved.environment())
    folder = write(Path(card).parent, to, gguf=gguf, delta=delta)
    if delta:
        typer.echo(f"Wrote {chosen.path} to {folder}. To load it, see {folder / 'README.md'}.")
        return
    is_causal = resolved.sources[chosen.source].kind == "causal"
    model = f"transformers.AutoModelFor{'CausalLM' if is_causal else 'MaskedLM'}"
    typer.echo(
        f'Wrote {chosen.path} to {folder}. To load it:\n  {model}.from_pretrained("{folder}")'
    )


def run_to_its_end(
    command: Sequence[str], output: IO[str] | None = None, show: Callable[[], None] = lambda: None
) -> int:
    """Run Snakemake, call `show` twice a second, and return Snakemake's exit code.

    Ctrl-C, `kill` and a closed terminal raise a KeyboardInterrupt after Snakemake has ended.
    """
    environment = snakemake_environment()
    process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)

    def end(number: int, frame: object) -> None:
        process.terminate()
        raise KeyboardInterrupt

    handlers = {
        number: signal.signal(number, end)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) != signal.SIG_IGN  # as under nohup
    }
    try:
        while process.poll() is None:
            show()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.5)
        return process.returncode
    finally:
        # The terminal has also interrupted Snakemake, which ends its jobs first.
        for seconds, number in ((1, signal.SIGINT), (20, signal.SIGKILL)):
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=seconds)
            if process.poll() is None:
                process.send_signal(number)
        process.wait()
        for number, handler in handlers.items():
            signal.signal(number, handler)


def snakemake_command(study_file: str, arguments: Sequence[str]) -> list[str]:
    """The command for Snakemake on a study: `machine_options`, then the user's arguments."""
    # -P: do not import modules from the working folder.
    snakemake = [sys.executable, "-P", "-m", "snakemake", "--configfile", study_file]
    # A single-valued option goes last: after others, targets would be read as their values.
    snakefile = ["--snakefile", str(PIPELINE / "Snakefile")]
    return [*snakemake, *machine_options(arguments), *snakefile, *with_profile_path(arguments)]


def snakemake_environment() -> dict[str, str]:
    """The environment, with a cache in the working folder if the user's cache is read-only."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    with suppress(OSError):
        (cache / "snakemake").mkdir(parents=True, exist_ok=True)
    if os.access(cache / "snakemake", os.W_OK):
        return dict(os.environ)
    return {**os.environ, "XDG_CACHE_HOME": str(Path(".snakemake/cache").resolve())}


def machine_options(arguments: Sequence[str]) -> list[str]:
    """Options of Snakemake for this machine that the user's arguments do not set.

    Without those that a profile or an executor decides: jobs then run on other machines.
    """
    options = []
    if not _has(arguments, "--logger", "--quiet", "-q"):
        shown = sys.stderr.isatty() and not _has(arguments, "--dry-run", "--dryrun", "-n")
        options += ["--logger", "rich"] if shown else ["--quiet", "reason", "host"]
    gpus = local_limit(arguments, os.environ)
    if gpus is None:
        return options
    if not _has(arguments, "--resources", "--res"):
        memory = int(psutil.virtual_memory().total / 2**20 * MEMORY_SHARE)
        options += ["--resources", f"mem_mb={memory}", f"gpu={gpus}"]
    if not _has(arguments, "--cores", "-c", "--jobs", "-j"):
        options += ["--cores", str(len(os.sched_getaffinity(0)))]
    return options


def with_profile_path(arguments: Sequence[str]) -> list[str]:
    """The arguments, with the name in `--profile slurm` replaced by lexigraft's own profile.

    A user's profile of that name takes precedence.
    """
    replaced: list[str] = []
    for argument in arguments:
        option, equals, name = argument.partition("=")
        if replaced[-1:] == ["--profile"]:
            argument = _profile(argument)
        elif option == "--profile" and equals:
            argument = f"{option}={_profile(name)}"
        replaced.append(argument)
    return replaced


def _profile(name: str) -> str:
    from snakemake.common import get_appdirs

    folders = get_appdirs()
    searched = [folders.user_config_dir, folders.site_config_dir, "."]
    if "/" in name or any(Path(folder, name).exists() for folder in searched):
        return name
    profiles = (Path("profiles", name), PIPELINE / "profiles" / name)
    return next((str(profile) for profile in profiles if profile.is_dir()), name)


def _has(arguments: Sequence[str], *options: str) -> bool:
    """Whether one of the options is among arguments; a short one may have its value attached."""
    names = {argument.partition("=")[0] for argument in arguments}
    short = tuple(option for option in options if not option.startswith("--"))
    return bool(names & {*options}) or any(
        name.startswith(short) for name in names if not name.startswith("--")
    )
