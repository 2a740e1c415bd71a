"""The commands in README.md and docs/ work: parsers accept them, and what they name exists."""

import os
import re
import shlex
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer
import yaml

from lexigraft.commands.app import COMMANDS, app, main
from lexigraft.machine import PEAKS, Machine
from tests import preloaded_python
from tests.conftest import REPOSITORY, run_command
from workflow.commands.running import snakemake_command, with_profile_path
from workflow.config.registries import load_registries

PAGES = [REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/**/*.md"))]
PAGES += sorted(REPOSITORY.glob("config/**/*.md"))
BLOCK = re.compile(r"^( *)```(?:sh|bash)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
IN_SENTENCES = re.compile(r"`((?:lexigraft|snakemake|make|python|\.venv/bin/\S+) [^`]+)`")
PLACEHOLDER = re.compile(r"[<{…]|(?<![$\w])[A-Z]{3,}\b(?!=)")  # a word that stands for others
BY_USERS = {"my-study.yaml", "study.yaml", "my-te.yaml"}
OTHER_PROGRAMS = {"cd", "sinfo", "sacctmgr", "tensorboard", "git", ".", "$EDITOR", "pip", "grep"}


def commands_of(page):
    """The commands in a page's shell blocks and sentences, each as a line of text."""
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.finditer(text):
        for line in block[2].replace("\\\n", " ").split("\n"):
            words = shlex.split(line.removeprefix("$ "), comments=True)
            while words:
                end = next((i for i, word in enumerate(words) if word in ("&&", "|")), len(words))
                yield shlex.join(words[:end])
                words = words[end + 1 :]
    yield from (
        command for command in IN_SENTENCES.findall(text) if not PLACEHOLDER.search(command)
    )


DOCUMENTED = sorted({(page.name, command) for page in PAGES for command in commands_of(page)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A user's folder with the studies of README.md and docs/command.md; the working folder."""
    folder = tmp_path_factory.mktemp("user")
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    [study] = re.findall(r"```yaml\n(study:.*?)```", readme, re.DOTALL)
    (folder / "my-study.yaml").write_text(study, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with pytest.raises(SystemExit) as end:
            main(["init", "my-te.yaml", "--language", "te", "--text", "data/telugu.txt"])
        assert not end.value.code
        yield folder


def check_study(path):
    assert Path(path).name in BY_USERS or (REPOSITORY / path).is_file(), f"there is no {path}"


def check_snakemake(words):
    from snakemake.cli import parse_args

    words = [word.replace("~/lexigraft", str(REPOSITORY)) for word in with_profile_path(words)]
    words = [str(REPOSITORY / word) if word.startswith("profiles/") else word for word in words]
    _, options = parse_args(words)
    assert options.snakefile is None or Path(options.snakefile).is_file()
    for path in options.configfile or []:
        check_study(os.path.relpath(path) if Path(path).name in BY_USERS else str(path))
    rules = "".join(path.read_text("utf-8") for path in REPOSITORY.glob("workflow/rules/*.smk"))
    assert all(f"rule {rule}:" in rules for rule in options.until or ())


def check_lexigraft(words):
    name = next((word for word in words if not word.startswith("-")), None)
    if name is None:  # lexigraft --help
        return
    assert name in COMMANDS, f"there is no command {name}"
    words = words[words.index(name) + 1 :]
    if words in ([], ["--help"]):
        return
    context = typer.main.get_command(app).get_command(None, name).make_context(name, words)
    for option, registry in (("initializer", "initializers"), ("strategy", "strategies")):
        assert context.params.get(option) in (None, *load_registries()[registry])
    if context.args:
        check_snakemake(context.args)
    elif context.params.get("study"):
        check_study(context.params["study"])


def check_make(words):
    makefile = (REPOSITORY / "Makefile").read_text("utf-8")
    for name, equals, value in (word.partition("=") for word in words):
        assert not equals or f"$({name})" in makefile, f"the Makefile does not read {name}"
        if name == "CONFIG":
            check_study(value)
    subprocess.run(["make", "-n", *words], cwd=REPOSITORY, capture_output=True, check=True)


def check_variable(word):
    name, _, value = word.partition("=")
    sources = [*REPOSITORY.glob("lexigraft/**/*.py"), *REPOSITORY.glob("workflow/**/*.py")]
    assert name.removeprefix("LEXIGRAFT_").lower() in Machine.model_fields or any(
        f'"{name}"' in path.read_text("utf-8") for path in sources
    ), f"nothing reads {name}"
    assert name != "LEXIGRAFT_DEVICE" or value in PEAKS


def check(words):
    while re.match("[A-Z_]+=", words[0]):
        check_variable(words.pop(0))
    program, *words = words
    program = program.removeprefix(".venv/bin/")
    if program == "lexigraft":
        check_lexigraft(words)
    elif program == "snakemake":
        check_snakemake(words)
    elif program == "make":
        check_make(words)
    elif program == "python":
        assert find_spec(words[1]) if words[0] == "-m" else (REPOSITORY / words[0]).is_file()
    elif program == "export":
        for word in words:
            check_variable(word)
    elif program == "sbatch":
        check(shlex.split(words[words.index("--wrap") + 1]))
    else:
        assert program in OTHER_PROGRAMS, f"nothing here checks {program}"


@pytest.mark.parametrize(("page", "command"), DOCUMENTED)
def test_a_documented_command_works(page, command, folder):
    check(shlex.split(command))


@pytest.mark.parametrize(
    "command",
    [
        "lexigraft adopt --model a/b", "lexigraft adapt --model a/b --texts t.txt",
        "lexigraft graft a/b --tokenizer t --initializer merg --out o",
        "lexigraft run my-study.yaml --corse 4", "make demos", "make cost CONF=a",
        "snakemake -n --configfile config/studies/lowers.yaml", "python scripts/verfy.py",
        "LEXIGRAFT_DEVICE=H1000 make cost", "export LEXIGRAFT_NOTHING=1", "docker run lexigraft",
    ],
)  # fmt: skip
def test_a_wrong_command_is_found(command, folder):
    with pytest.raises((Exception, SystemExit)):  # each parser has its own
        check(shlex.split(command))


def test_the_search_finds_commands_of_all_kinds():
    programs = {command.split()[0] for _, command in DOCUMENTED}
    assert {"lexigraft", "snakemake", "make", "pip", "sbatch", "export"} <= programs


def test_a_dry_run_with_the_options_of_the_page_plans_the_target(folder):
    options = ["-n", "--quiet", "host", "--cores", "4", "--until", "train"]
    command = snakemake_command("my-te.yaml", [*options, "results/corpus/my-te/card.json"])
    dry_run = run_command([preloaded_python.python(), *command[1:]])
    assert dry_run.returncode == 0, dry_run.stderr
    assert yaml.safe_load(Path("my-te.yaml").read_text("utf-8"))["languages"].keys() == {"my-te"}
    assert "prepare_corpus" in dry_run.stdout + dry_run.stderr


def test_the_studies_of_the_pages_are_planned(folder, capsys):
    for study in ("my-study.yaml", "my-te.yaml"):
        with pytest.raises(SystemExit) as end:
            main(["plan", study])
        assert not end.value.code
        output = capsys.readouterr().out
        assert "train " in output and "data/telugu.txt" in output
