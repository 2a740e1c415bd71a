"""Whatever a config says, it is data: no shell sees it, and no file of it lies elsewhere."""

import json
import re
import shlex
import shutil
from copy import deepcopy

import pytest

from lexigraft import UserError
from lexigraft.cells import NAME
from tests.workflow.conftest import REPOSITORY, Checkout
from workflow.config.registries import REGISTRIES, resolve

RULES = sorted((REPOSITORY / "workflow/rules").glob("*.smk"))
# A number, and a command that contains numbers alone (workflow/inputs/training.py).
UNQUOTED = {"resources.gpu", "params.launcher"}
HOSTILE = "\n".join(
    [
        "'; touch pwned; '",
        '"; touch pwned; "',
        "$(touch pwned) `touch pwned`",
        "{log} {x!r} ${HOME}",
    ]
)
NO_NAMES = [
    "", ".", "..", "../up", "a/b", "/etc", ".hidden", "-rf", "a b", "a;b", "$(a)", "`a`", "a'b",
    "a\n", "a\nb", "{a}", "é", 7, None,
]  # fmt: skip


def test_every_value_in_a_shell_command_is_quoted():
    commands = [
        match[1]
        for file in RULES
        for match in re.finditer(r"^    shell:\n\s+(.+)$", file.read_text(), re.MULTILINE)
    ]
    assert len(commands) > 20
    for command in commands:
        values = re.findall(r"\{([^}]+)\}", command)
        assert [v for v in values if not v.endswith(":q") and v not in UNQUOTED] == [], command


def test_nothing_but_a_name_is_taken_for_one():
    assert [name for name in NO_NAMES if isinstance(name, str) and re.fullmatch(NAME, name)] == []


@pytest.mark.bad_input(
    "hostile",
    "names that are paths, hidden files, options or commands",
    "rejected with a message that names the key",
)
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, "../up") for kind in REGISTRIES] + [("tasks", n) for n in NO_NAMES]
)
def test_an_entry_of_a_registry_must_have_a_name(kind, name, miniature):
    config = {key: miniature[key] for key in ("study", "cells", "run_tasks")}
    with pytest.raises(UserError, match="is not a valid name") as error:
        resolve(config | {kind: {name: {}}}, {kind: {} for kind in REGISTRIES})
    assert str(error.value).startswith(f"{kind}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "axis", ["sources", "languages", "vocabularies", "initializers", "strategies"]
)
def test_a_cell_consists_of_names(axis, miniature, registries):
    for name in ("../up", "a\n", 7, None):
        config = deepcopy(miniature)
        config["cells"][1][axis] = [name]
        with pytest.raises(UserError, match=rf"config\.cells\[1\]\.{axis}"):
            resolve(config, registries)


@pytest.mark.parametrize(
    ("key", "value"),
    [(key, "a;b") for key in ("study", "results", "packages_folder", "prefix")]
    + [("results", value) for value in ("a b", "$(a)", "`a`", "a'b", "a\n", "{a}")],
)
def test_a_path_consists_of_plain_characters(key, value, miniature, registries):
    with pytest.raises(UserError, match=f"config.{key}: "):
        resolve(deepcopy(miniature) | {key: value}, registries)


def use_hostile_texts(checkout: Checkout, texts, model) -> dict[str, str]:
    """Texts, a model and a language of such names; the values that jobs must get as they are."""
    folder = checkout.folder / 'o\'wn $(touch pwned); `touch pwned` "x"'
    shutil.copytree(model, folder / "model")
    for name in ("telugu.txt", "telugu.tsv"):
        shutil.copy2(texts / name, folder)

    def change(config):
        config["title"] = HOSTILE
        config["sources"]["tiny"]["folder"] = str(folder / "model")
        config["languages"]["telugu"]["name"] = HOSTILE
        config["languages"]["telugu"]["text"]["paths"] = [str(folder / "telugu.txt")]
        config["languages"]["telugu"]["parallel"]["path"] = str(folder / "telugu.tsv")

    checkout.change(change)
    return {"prepare_source": str(folder / "model"), "prepare_corpus": HOSTILE}


@pytest.mark.bad_input(
    "hostile",
    "shell commands in any value of a config",
    "each value is passed to a job as one quoted word; no shell runs it",
)
def test_each_job_gets_the_values_of_a_config_as_one_word(checkout, texts, smollm2_folder_tiny):
    use_hostile_texts(checkout, texts, smollm2_folder_tiny)
    plan = checkout.snakemake("--dry-run", "--printshellcmds")
    assert plan.returncode == 0, plan.stderr
    commands = re.findall(r"^.*\bscripts/\w+\.py\W.*$", plan.stdout + plan.stderr, re.MULTILINE)
    rules = set()
    for command in commands:
        words = shlex.split(command.partition("Shell command: ")[2] or command)
        assert words[:2] == ["$LEXIGRAFT/scripts/job.sh", "python"], command
        assert words[-3] == ">" and len(words) == (11 if "lexigraft.gpus" in words else 7), command
        job = json.loads(words[-4])
        rules.add(job["rule"])
        assert re.fullmatch(r"\$LEXIGRAFT/scripts/\w+\.py", words[-5])
    assert {"prepare_source", "prepare_corpus", "build_vocabulary", "initialize", "train",
            "evaluate", "measure_fragmentation", "build_report"} <= rules  # fmt: skip


@pytest.mark.bad_input(
    "hostile",
    "shell commands in any value of a config",
    "each value is passed to a job as one quoted word; no shell runs it",
)
def test_no_shell_runs_what_a_config_says(checkout, texts, smollm2_folder_tiny):
    use_hostile_texts(checkout, texts, smollm2_folder_tiny)
    cards = [f"results/{place}/card.json" for place in ("source/tiny", "corpus/telugu")]
    result = checkout.snakemake("--", *cards)
    assert result.returncode == 0, result.stdout + result.stderr
    assert not [*checkout.folder.rglob("pwned")]
    settings = json.loads((checkout.folder / cards[1]).read_text())["job"]["settings"]
    assert settings["name"] == HOSTILE
