"""docs/reliability.md lists what the tests try, as their marks say it."""

import json

import pytest

from lexigraft.errors import UserError
from workflow import reliability
from workflow.config.registries import ROOT
from workflow.reliability import AREAS, COLUMNS, collected


@pytest.fixture(scope="module")
def record():
    return collected()


def test_the_record_is_what_the_marks_say(record):
    stored = json.loads((ROOT / "docs/results/reliability.json").read_text(encoding="utf-8"))
    assert stored == record, "run `make pages`"


def test_every_area_has_a_fault_or_a_bad_input(record):
    for mark, areas in AREAS.items():
        assert {row[0] for row in record["tables"][f"{mark}s"][1:]} == set(areas)


@pytest.fixture
def written(tmp_path):
    """What is collected of a file of tests."""

    def collect(text: str):
        (tmp_path / "tests").mkdir(exist_ok=True)
        (tmp_path / "tests/test_a.py").write_text(text)
        return collected(tmp_path)["tables"]

    return collect


def test_marks_of_tests_and_of_their_cases_are_found_and_equal_ones_are_one_row(written):
    tables = written(
        "import pytest\n"
        "@pytest.mark.fault('disk', 'a full disk', 'one line')\n"
        "def test_one(): ...\n"
        "@pytest.mark.parametrize('x', [\n"
        "    pytest.param(1, marks=pytest.mark.fault('disk', 'a full disk', 'one line')),\n"
        "    pytest.param(2, marks=[pytest.mark.fault('kill', 'SIGKILL', 'it goes on')]),\n"
        "])\n"
        "@pytest.mark.bad_input('text', 'no text', 'one line')\n"
        "def test_two(x): ...\n"
    )
    assert tables["faults"] == [
        list(COLUMNS),
        ["kill", "SIGKILL", "it goes on", ["tests/test_a.py::test_two"]],
        ["disk", "a full disk", "one line", [f"tests/test_a.py::test_{n}" for n in ("one", "two")]],
    ]  # fmt: skip
    assert [row[0] for row in tables["bad_inputs"][1:]] == ["text"]


@pytest.mark.parametrize(
    ("mark", "on", "message"),
    [
        ("fault('disc', 'x', 'y')", "def test_x", r"test_a.py:1: area: 'disc' .*mean 'disk'"),
        ("fault('disk', 'x')", "def test_x", "test_a.py:1: fault takes three strings"),
        ("fault('disk', 'x', WHAT)", "def test_x", "takes three strings"),
        ("fault('disk', 'x', 'y')", "def helper", "test_a.py:1: fault does not mark a test"),
    ],
)
def test_a_wrong_mark_is_named_with_its_line(written, mark, on, message):
    with pytest.raises(UserError, match=message):
        written(f"@pytest.mark.{mark}\n{on}(): ...\n")


def test_pytest_knows_the_marks(pytestconfig):
    known = {line.split("(")[0] for line in pytestconfig.getini("markers")}
    assert set(reliability.AREAS) <= known
