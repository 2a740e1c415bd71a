"""The command `lexigraft`: help, exit codes, and what it imports."""

import sys

import pytest

from lexigraft.commands import app
from lexigraft.errors import UserError, suggestion
from tests.conftest import run_command

HEAVY = ("torch", "transformers", "numpy", "pandas", "snakemake")


@pytest.fixture
def call(capsys):
    """Run the command here; gives exit code, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            app.main(list(arguments))
        shown = capsys.readouterr()
        return end.value.code or 0, shown.out, shown.err

    return run


@pytest.fixture
def failing(monkeypatch):
    """Let the command `plan` raise an error."""

    def fail(error: Exception) -> None:
        def plan(study: str) -> None:
            """Fail."""
            raise error

        app._import_command.cache_clear()
        monkeypatch.setattr("workflow.commands.overview.plan", plan)

    yield fail
    app._import_command.cache_clear()


def test_help_names_every_command_below_its_heading_and_imports_no_heavy_library():
    code = (
        "import sys\n"
        "from lexigraft.commands.app import main\n"
        "try:\n    main(['--help'])\n"
        f"finally:\n    print('heavy:', [name for name in {HEAVY} if name in sys.modules])\n"
    )
    shown = run_command([sys.executable, "-c", code], check=True).stdout
    assert "heavy: []" in shown
    headings = {row.panel for row in app.COMMANDS.values()}
    for name, row in app.COMMANDS.items():
        before = shown[: shown.index(f"│ {name} ")]
        assert max(headings, key=before.rfind) == row.panel, name


@pytest.mark.bad_input(
    "command", "an unknown command", "exit code 2 and a message that suggests a similar command"
)
def test_an_unknown_command_ends_with_code_2_and_a_suggestion(call):
    code, _, message = call("plam")
    assert code == 2
    assert "'plan'" in message


def test_an_error_of_the_user_is_one_line_with_code_1(call, failing):
    failing(UserError("study.yaml: wrong; correct it"))
    assert call("plan", "study.yaml") == (1, "", "error: study.yaml: wrong; correct it\n")


def test_a_bug_is_one_line_that_names_the_option_for_its_traceback(call, failing):
    failing(KeyError("cells"))
    code, _, message = call("plan", "study.yaml")
    assert code == 1
    assert message.count("\n") == 1
    assert "KeyError" in message
    assert "lexigraft --debug plan study.yaml" in message


def test_a_list_in_a_message_is_whole_or_ends_in_an_ellipsis():
    names = [f"name-{number:02}" for number in range(21)]
    assert suggestion("?", names[:20]) == f"; choose from {', '.join(names[:20])}"
    assert suggestion("?", names) == f"; choose from {', '.join(names[:20])}, …"


def test_ctrl_c_ends_with_code_130(call, failing):
    failing(KeyboardInterrupt())
    assert call("plan", "study.yaml")[0] == 130


def test_the_version(call):
    from lexigraft import __version__

    assert call("--version") == (0, f"lexigraft {__version__}\n", "")


@pytest.mark.bad_input("command", "an unknown option", "exit code 2")
def test_an_option_that_does_not_exist_ends_with_code_2(call):
    assert call("plan", "--no-such-option", "study.yaml")[0] == 2


@pytest.mark.fault(
    "disk", "the disk is full when a command runs", "a one-line error message without a traceback"
)
def test_a_full_disk_is_reported_without_a_traceback(call, failing):
    failing(OSError(28, "No space left on device", "results/x"))
    assert "results/x: no space left" in call("plan", "study.yaml")[2]
