"""Every command of the pages is one that works: its parser takes it, and what it names is there.

A command that no check below knows fails. The commands that write or show something without a
model, `init` and `plan`, are run.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
import yaml
from packaging.requirements import Requirement

from lexigraft.commands.app import COMMANDS, app, main
from lexigraft.machine import PEAKS, Machine
from tests import preloaded_python
from tests.workflow.test_packaging import pins, requirements
from workflow.commands.running import with_profile_path
from workflow.config.registries import load_registries
from workflow.stages.study import open_study

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page
    for page in (
        REPOSITORY / "README.md",
        *(REPOSITORY / "docs").rglob("*.md"),
        *(REPOSITORY / "config").rglob("*.md"),
    )
    # Those of a template are those of the page that is made of it.
    if "templates" not in page.parts
)
SHELL = {"sh", "bash", "shell", "console"}
MADE_BY_USERS = {"my-study.yaml", "study.yaml"}
_NAME = r"[A-Z]\w*"  # of a variable


class Command(NamedTuple):
    """A command and where it stands."""

    page: str
    line: int
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {shlex.join(self.words)}"


def blocks(page: Path) -> Iterator[tuple[int, str, str]]:
    """Line, language and text of each fenced block."""
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r"^( *)```(\S*)[^\n]*\n(.*?)^\1```", text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, found.start()) + 2, found[2], found[3]


def commands_of(page: Path) -> Iterator[Command]:
    """All commands of a page's shell blocks, and those that stand in its sentences."""
    name = str(page.relative_to(REPOSITORY))
    for first, language, text in blocks(page):
        if language not in SHELL:
            continue
        for number, line in enumerate(text.replace("\\\n", "\0").split("\n"), first):
            words = shlex.split(line.replace("\0", " ").removeprefix("$ "), comments=True)
            while words:
                one = list(takewhile(lambda word: word not in ("&&", "|", ";"), words))
                words = words[len(one) + 1 :]
                yield Command(name, number, tuple(one))
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
        for text in re.findall(
            r"`((?:lexigraft|snakemake|make|python|\.venv/bin/\S+) [^`]+)`", line
        ):
            # Not where a word stands for others.
            if not re.search(r"[<{…]|(?<![$\w])[A-Z]{3,}\b(?!=)", text):
                yield Command(name, number, tuple(shlex.split(text)))


COMMANDS_OF_PAGES = [command for page in PAGES for command in commands_of(page)]


# ---- what a command must fulfil ------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A user's folder with the studies of README.md and docs/command.md; the working folder."""
    folder = tmp_path_factory.mktemp("user")
    [study] = [
        text
        for _, language, text in blocks(REPOSITORY / "README.md")
        if language == "yaml" and text.startswith("study:")
    ]
    (folder / "my-study.yaml").write_text(study, encoding="utf-8")
    # That of docs/command.md, whose language is my-te.
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with pytest.raises(SystemExit) as end:
            main(["init", "my-te.yaml", "--language", "te", "--text", "data/telugu.txt"])
        assert not end.value.code
        yield folder


@cache
def outputs_of(study: str) -> set[str]:
    return {*open_study(study).jobs()}


def check_study(place: str, targets: Sequence[str] = ()) -> None:
    """A study is valid, and makes what a command asks of it."""
    if place in MADE_BY_USERS:
        files = ["my-study.yaml", "my-te.yaml"]
    else:
        assert (REPOSITORY / place).is_file(), f"{place} is not there"
        files = [str(REPOSITORY / place)]
    known = set().union(*(outputs_of(file) for file in files))
    # Exports are only made when asked for by name: of every cell that is trained.
    known |= {card.replace("results/training/", "results/export/", 1) for card in known}
    assert {*targets} <= known | {"all", "lexigraft_all"}, f"{place} makes none of {targets}"


def check_snakemake(words: Sequence[str], config: str | None = None) -> None:
    """Snakemake's own parser takes the words; configs, profiles, rules and targets are there."""
    from snakemake.cli import parse_args

    given = [word.replace("~/lexigraft", str(REPOSITORY)) for word in with_profile_path(words)]
    given = [str(REPOSITORY / word) if word.startswith("profiles/") else word for word in given]
    try:
        _, read = parse_args(given)
    except SystemExit:
        raise AssertionError("Snakemake does not know an option or a value") from None
    if read.snakefile:
        assert Path(read.snakefile).is_file()
    configs = [str(file) for file in read.configfile or [config or "config/config.yaml"]]
    for file in configs:
        place = Path(file).name if Path(file).parent == Path.cwd() else file
        check_study(place, read.targets or ())
    rules = {
        rule
        for file in (REPOSITORY / "workflow/rules").glob("*.smk")
        for rule in re.findall(r"^rule (\w+):", file.read_text("utf-8"), re.MULTILINE)
    }
    assert {*(read.until or ())} <= rules


def check_lexigraft(words: Sequence[str]) -> None:
    """The command's own parser takes the words, and names are those of registries."""
    named = [word for word in words if not word.startswith("-")]
    if not named:  # lexigraft --help
        return
    name, given = named[0], [*words[words.index(named[0]) + 1 :]]
    assert name in COMMANDS, f"there is no command {name}"
    if not given:  # a sentence names it
        return
    if "--help" in given:
        given.remove("--help")
        assert not given
        return
    group = typer.main.get_command(app)
    command = group.get_command(None, name)
    context = command.make_context(name, given)
    for option, registry in (("initializer", "initializers"), ("strategy", "strategies")):
        if chosen := context.params.get(option):
            assert chosen in load_registries()[registry], f"--{option}: there is no {chosen}"
    if context.args:
        check_snakemake(context.args, context.params["study"])
    elif name == "init":
        if not Path(context.params["file"]).exists():
            main([name, *given])
    elif "study" in context.params:
        check_study(context.params["study"])


def check_make(words: Sequence[str]) -> None:
    """Make knows how to make the targets, and reads the variables."""
    makefile = (REPOSITORY / "Makefile").read_text("utf-8")
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            assert f"$({name})" in makefile, f"the Makefile does not read {name}"
        if name == "CONFIG":
            check_study(value)
    dry = subprocess.run(
        ["make", "-n", *words], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert dry.returncode == 0, dry.stderr


def check_pip(words: Sequence[str]) -> None:
    """Versions are those that are tested, or that the package asks for; extras are there."""
    assert words[0] == "install"
    rest = [*words[1:]]
    while rest:
        word = rest.pop(0)
        if word in ("-c", "--index-url"):
            value = rest.pop(0)
            assert word != "-c" or (REPOSITORY / value).is_file()
            continue
        wanted = Requirement(word)
        if wanted.name == "lexigraft":
            for extra in wanted.extras:
                requirements(extra)
        else:
            for pin in wanted.specifier:
                asked = requirements("workflow", "gpu")[wanted.name].specifier
                assert asked.contains(pin.version), f"lexigraft asks for {wanted.name}{asked}"
                assert pins("main.lock").get(wanted.name, pin.version) == pin.version


def check_python(words: Sequence[str]) -> None:
    """The script or the module is there."""
    if words[0] == "-m":
        assert find_spec(words[1])
    else:
        assert (REPOSITORY / words[0]).is_file()


def check_variable(word: str) -> None:
    """A variable of ours is read somewhere, and a device is a known one."""
    name, _, value = word.partition("=")
    setting = name.removeprefix("LEXIGRAFT_").lower()
    files = [file for one in ("lexigraft", "workflow") for file in (REPOSITORY / one).rglob("*.py")]
    assert setting in Machine.model_fields or any(
        f'"{name}"' in file.read_text("utf-8") for file in files
    ), f"nothing reads {name}"
    assert name != "LEXIGRAFT_DEVICE" or value in PEAKS


def check_export(words: Sequence[str]) -> None:
    for word in words:
        check_variable(word)


def check_sbatch(words: Sequence[str]) -> None:
    check(tuple(shlex.split(words[words.index("--wrap") + 1])))


def check_editor(words: Sequence[str]) -> None:
    assert all((REPOSITORY / word).is_file() for word in words)


def check_git(words: Sequence[str]) -> None:
    assert words[0] == "clone" or all((REPOSITORY / word).exists() for word in words[1:])


def check_activation(words: Sequence[str]) -> None:
    assert words[0].endswith(".venv/bin/activate")


def nothing(words: Sequence[str]) -> None:
    """Of programs that are not ours."""


CHECKS: dict[str, Callable[[Sequence[str]], None]] = {
    "lexigraft": check_lexigraft,
    "snakemake": check_snakemake,
    "make": check_make,
    "pip": check_pip,
    "python": check_python,
    "export": check_export,
    "sbatch": check_sbatch,
    "$EDITOR": check_editor,
    "git": check_git,
    ".": check_activation,
    "cd": nothing,
    "sinfo": nothing,
    "sacctmgr": nothing,
    "tensorboard": nothing,
}


def check(words: tuple[str, ...]) -> None:
    while re.match(rf"{_NAME}=", words[0]):
        check_variable(words[0])
        words = words[1:]
    name = words[0].removeprefix(".venv/bin/")
    assert name in CHECKS, f"no check in {Path(__file__).name} knows {name}: write one"
    CHECKS[name](words[1:])


@pytest.mark.parametrize("command", COMMANDS_OF_PAGES, ids=str)
def test_a_command_of_a_page_works(command, folder):
    check(command.words)


def test_the_pages_have_commands_of_all_kinds():
    """The search finds them."""
    found = {command.words[0] for command in COMMANDS_OF_PAGES}
    assert {"lexigraft", "snakemake", "make", "pip", "sbatch", "export"} <= found
    assert {command.page for command in COMMANDS_OF_PAGES} >= {"README.md", "docs/slurm.md"}


def test_a_block_of_commands_says_so():
    """Otherwise nothing would check it."""
    for page in PAGES:
        for line, language, text in blocks(page):
            first = text.split(maxsplit=1)[0].removeprefix(".venv/bin/")
            assert language or first not in CHECKS, f"{page.name}:{line}: write ```sh"


@pytest.mark.parametrize(
    "wrong",
    [
        "lexigraft adopt --model a/b", "lexigraft adapt --model a/b --texts t.txt",
        "lexigraft graft a/b --tokenizer t --initializer merg --out o",
        "lexigraft run my-study.yaml --corse 4", "lexigraft run my-study.yaml results/corpus/x",
        "snakemake -n --configfile config/studies/lowers.yaml", "make demos", "make cost CONF=a",
        "pip install vllm==0.1.0", "pip install lexigraft[all]", "python scripts/verfy.py",
        "LEXIGRAFT_DEVICE=H1000 make cost", "export LEXIGRAFT_NOTHING=1", "docker run lexigraft",
    ],
)  # fmt: skip
def test_a_wrong_command_is_found(wrong, folder):
    with pytest.raises(Exception):  # noqa: B017 (each parser has its own)
        check(tuple(shlex.split(wrong)))


def test_what_the_study_commands_say_is_what_snakemake_does(folder):
    """One dry run with the options and the target of docs/command.md."""
    from workflow.commands.running import snakemake_command

    options = ["-n", "--quiet", "host", "--cores", "4", "--until", "train"]
    command = snakemake_command("my-te.yaml", [*options, "results/corpus/my-te/card.json"])
    dry = subprocess.run(
        [preloaded_python.python(), *command[1:]],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert dry.returncode == 0, dry.stderr
    assert yaml.safe_load(Path("my-te.yaml").read_text("utf-8"))["languages"].keys() == {"my-te"}
    assert "prepare_corpus" in dry.stdout + dry.stderr


def test_the_studies_of_the_pages_are_planned(folder, capsys):
    for study in ("my-study.yaml", "my-te.yaml"):
        with pytest.raises(SystemExit) as end:
            main(["plan", study])
        assert not end.value.code
        shown = capsys.readouterr().out
        assert "train " in shown and "data/telugu.txt" in shown
