"""The cluster's profile plans the default study, and the workflow keeps Snakemake's house rules."""

import re
import subprocess


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


def test_lint_finds_nothing_but_the_one_pinned_environment(checkout):
    """One environment for all is made by make, so a conda environment per rule means nothing."""
    lints = set(re.findall(r"^\s+\* (.*)$", snakemake(checkout, "--lint"), flags=re.MULTILINE))
    assert lints == {"Specify a conda environment or container for each rule.:"}
