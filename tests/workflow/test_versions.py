"""The developer's check: changed code needs a raised version, or a refreshed lock file."""

import json

import pytest

from tests.conftest import run_command
from tests.workflow.conftest import Checkout, copy_project
from workflow.versions import VERSIONS_FILE, check, digest_code

CODE = '''"""A module."""
import logging

logger = logging.getLogger(__name__)


def halve(number: int) -> int:
    """Half of an even number."""
    logger.info("halving %d", number)
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2
'''


def test_the_lock_file_is_up_to_date():
    assert check(json.loads(VERSIONS_FILE.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("A module.", "Another docstring."),
        ("Half of", "One half of"),
        ("    logger", "    # A comment.\n    logger"),
        ("number // 2", "(number  //  2)"),
        ("halving %d", "dividing %d"),
        ("is odd", "is not even"),
    ],
)
def test_docstrings_comments_layout_and_messages_do_not_change_the_digest(old, new):
    assert old in CODE
    assert digest_code(CODE.replace(old, new)) == digest_code(CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("number // 2", "number / 2"),
        ("number % 2", "number % 4"),
        ("ValueError", "TypeError"),
        ("import logging", "import logging, math"),
    ],
)
def test_code_changes_the_digest(old, new):
    assert old in CODE
    assert digest_code(CODE.replace(old, new)) != digest_code(CODE)


def versions(project: Checkout, *arguments: str) -> str:
    """The output of `python -m workflow.versions` in a copy of the repository."""
    done = run_command(
        [project.python, "-m", "workflow.versions", *arguments],
        cwd=project.folder,
        env=project.environment(),
    )
    assert bool(done.returncode) == bool(done.stderr) and "Traceback" not in done.stderr
    return done.stderr


def test_the_check_names_stages_whose_code_changed_and_raised_versions(tmp_path):
    project = copy_project(tmp_path / "project")
    assert versions(project, "refresh") == ""
    project.edit("lexigraft/initialization/methods/align.py", '"""', '"""Reworded. ')
    assert versions(project) == ""
    with (project.folder / "lexigraft/vocabulary/expand.py").open("a") as file:
        file.write("\n\nADDED = 1\n")
    said = versions(project)
    assert "Code has changed of stage build_vocabulary." in said
    assert "raise `version`" in said and "workflow.versions refresh" in said
    align = "class Align(RecipeInitializer):"
    project.edit("lexigraft/initialization/methods/align.py", align, f"{align}\n    version = 2")
    assert "initializer align: version 1 -> 2" in versions(project)
    assert versions(project, "refresh") == versions(project) == ""
