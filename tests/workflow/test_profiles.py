"""The cluster's profile plans the default study, and the workflow keeps Snakemake's house rules."""

import re
import subprocess
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
PROFILE = yaml.safe_load((REPOSITORY / "profiles/slurm/config.yaml").read_text(encoding="utf-8"))


def snakemake(checkout, *arguments: str) -> str:
    """The output of a run that must succeed, on the checkout's own default config."""
    result = subprocess.run(
        [checkout.python, "-m", "snakemake", *arguments],
        cwd=checkout.folder,
        env=checkout.environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    output = result.stdout + result.stderr
    assert result.returncode == 0 or "--lint" in arguments, output
    return output


def test_the_slurm_profile_plans_the_default_study(checkout):
    plan = snakemake(checkout, "--profile", "profiles/slurm", "-n")
    counts = dict(re.findall(r"^(\w+)\s+(\d+)$", plan, flags=re.MULTILINE))
    # 2 languages × (Source, LAPT), 2 × 4 initializers × 2 seeds, 2 more initializers, 3 strategies.
    assert counts["train"] == str(2 * 2 + 2 * 4 * 2 + 2 + 3)
    assert counts["prepare_source"] == "1"
    # None of them is learned: no job waits for a GPU that it has no use for.
    assert counts["initialize"] == "12" and "learn_initialization" not in counts


def rules() -> dict[str, str]:
    """Name -> text of every rule; one that is made of another begins with the other's text."""
    found: dict[str, str] = {}
    for file in sorted((REPOSITORY / "workflow/rules").glob("*.smk")):
        for text in re.split(r"^(?=rule |use rule )", file.read_text(encoding="utf-8"), flags=re.M):
            if made := re.match(r"use rule (\w+) as (\w+) with:", text):
                inherited = "" if "resources:" in text else found[made[1]]
                found[made[2]] = inherited + text
            elif begun := re.match(r"rule (\w+):", text):
                found[begun[1]] = text
    return found


def test_jobs_with_a_gpu_and_no_others_go_to_the_partition_with_gpus():
    on_gpus = {name for name, text in rules().items() if re.search(r"\bgpu=", text)}
    assert {"train", "evaluate", "evaluate_checkpoint", "learn_initialization"} <= on_gpus
    assert set(PROFILE["set-resources"]) == on_gpus
    assert len({id(settings) for settings in PROFILE["set-resources"].values()}) == 1


def test_members_of_a_group_with_a_gpu_take_turns_on_it():
    """Each takes all the cores that a group has."""
    for rule in PROFILE["groups"].keys() & PROFILE["set-resources"].keys():
        assert PROFILE["set-threads"][rule] == PROFILE["cores"]


def test_no_training_waits_for_a_group():
    """A member that fails holds up whatever reads from its group."""
    texts = rules()
    readers = {
        rule: {name for name, text in texts.items() if f"rules.{rule}.output" in text}
        for rule in PROFILE["groups"]
    }
    assert set().union(*readers.values()) <= {"score_predictions"}


def test_groups_are_of_rules_and_labels_that_exist():
    assert PROFILE["groups"].keys() <= rules().keys()
    assert PROFILE["group-components"].keys() == set(PROFILE["groups"].values())


def test_lint_finds_nothing_but_the_one_pinned_environment(checkout):
    """One environment for all is made by make, so a conda environment per rule means nothing."""
    lints = set(re.findall(r"^\s+\* (.*)$", snakemake(checkout, "--lint"), flags=re.MULTILINE))
    assert lints == {"Specify a conda environment or container for each rule.:"}
