"""One loader reads all YAML; what YAML would silently drop or never finish is refused."""

import ast
import random
import time

import pytest
import yaml

from lexigraft import UserError
from lexigraft.yaml_files import parse_yaml
from tests.conftest import REPOSITORY

OTHER_ENVIRONMENT = (
    REPOSITORY / "lexigraft/evaluation/learned/kinds/comet.py"
)  # imports no lexigraft


def refused(text):
    start = time.monotonic()
    with pytest.raises(UserError) as error:
        parse_yaml(text, "study.yaml")
    assert time.monotonic() - start < 5
    message = str(error.value)
    assert "\n" not in message and message.startswith("study.yaml: ")
    return message


def aliases(levels, first, level):
    text = f"a0: &a0 {first}\n"
    for number in range(1, levels):
        others = ", ".join([f"*a{number - 1}"] * 10)
        text += f"a{number}: &a{number} {level.format(others)}\n"
    return text


@pytest.mark.bad_input(
    "config",
    "a key that a mapping has twice",
    "rejected with a message that names the file, the lines and the key",
)
@pytest.mark.parametrize("seed", range(10))
def test_a_key_that_is_doubled_anywhere_is_named_with_its_lines(seed):
    draw = random.Random(seed)
    lines, depths = ["key0:"], [0]
    for number in range(1, 30):
        parents = [place for place, line in enumerate(lines) if line.endswith(":")]
        depth = draw.choice(sorted({depths[place] + 1 for place in parents}))
        place = draw.choice([place for place in parents if depths[place] + 1 == depth])
        value = draw.choice(["", "", " 1", " [1, {a: 2}]"])
        lines.insert(place + 1, f"{'  ' * depth}key{number}:{value}")
        depths.insert(place + 1, depth)
    text = "\n".join(lines)
    assert parse_yaml(text, "study.yaml") == yaml.safe_load(text)
    place = draw.randrange(len(lines))
    while place + 1 < len(lines) and depths[place + 1] > depths[place]:
        place = draw.randrange(len(lines))
    name = lines[place].strip().partition(":")[0]
    doubled = [*lines[: place + 1], f"{'  ' * depths[place]}'{name}': 2", *lines[place + 1 :]]
    message = refused("\n".join(doubled))
    assert f"line {place + 2}: the key '{name}' is already given in line {place + 1}" in message


def test_aliases_and_merges_keep_working():
    text = "a: &a {x: 1, y: 2}\nb: *a\nc: {<<: *a, x: 3}\nd:\n  <<: [*a, {z: 4}]\n  y: 5\n"
    assert parse_yaml(text, "study.yaml") == yaml.safe_load(text)


@pytest.mark.bad_input(
    "hostile",
    "YAML aliases that expand to a billion values",
    "rejected at once with a message that names the line",
)
@pytest.mark.parametrize(
    ("first", "level"), [("[x]", "[{}]"), ("{x: 1}", "{{k: [{}]}}"), ("{x: 1}", "{{<<: [{}]}}")]
)
def test_aliases_that_stand_for_a_billion_values_are_refused_at_once(first, level):
    assert "aliases expand to more than 1,000,000 values" in refused(aliases(10, first, level))
    assert parse_yaml(aliases(4, first, level), "study.yaml")


@pytest.mark.parametrize("text", ["&a [*a]", "a: &a\n  b: {c: *a}"])
def test_an_alias_within_its_own_value_is_refused(text):
    assert "the alias contains itself" in refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        "- " * 100_000,
        "{a: " * 100_000,
        "!!bool maybe",
        "!!int ''",
        "!!timestamp soon",
        "2024-99-99",
        "9" * 5000,
        "!!python/object:os.system {}",
        "{[a]: b}",
        "\0",
        "a: [",
    ],
)
def test_whatever_is_no_valid_yaml_is_one_line(text):
    assert "not valid YAML" in refused(text)


def test_no_other_code_loads_yaml():
    for folder in ("lexigraft", "workflow", "scripts", "benchmarks"):
        for file in (REPOSITORY / folder).rglob("*.py"):
            calls = (
                ast.unparse(node.func)
                for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
                if isinstance(node, ast.Call)
            )
            loads = {call for call in calls if call.startswith("yaml.") and "load" in call}
            assert not loads or file == OTHER_ENVIRONMENT, file
