"""config/README.md has the keys, bounds, defaults and meanings of the models of a config."""

import pytest

from lexigraft.settings import plain, validate
from lexigraft.training.settings import Phase, Strategy
from workflow.config.documentation import README, TABLES, documented, table
from workflow.config.registries import BASE, REGISTRIES, TITLE


def test_the_tables_of_the_readme_are_those_of_the_models():
    text = README.read_text(encoding="utf-8")
    assert documented(text) == text, "run `make config-tables`"


def test_every_table_is_in_the_readme():
    text = README.read_text(encoding="utf-8")
    assert {
        name for name in [*TABLES, "report.kinds"] if f"<!-- table: {name} -->" not in text
    } == set()


def test_every_registry_has_a_table():
    assert {
        kind for kind in REGISTRIES if not any(name.startswith(kind) for name in TABLES)
    } == set()


def test_every_key_says_what_it_means():
    for name, model in TABLES.items():
        for key, field in model.model_fields.items():
            assert field.description, f"{name}.{key}"


def test_a_row_has_type_bounds_and_default():
    rows = table(Strategy).splitlines()
    assert any(row.startswith("| `checkpoints` | whole number, from 1 | `1` |") for row in rows)
    assert any(row.startswith("| `sentences` | whole number, from 1, or `null` | `null` |")
               for row in rows)  # fmt: skip
    rows = table(Phase).splitlines()
    assert any(row.startswith("| `length` | whole number, from 8 | required |") for row in rows)


@pytest.mark.parametrize("kind", REGISTRIES)
def test_plain_entries_are_what_pydantic_would_make_of_them(kind, registries):
    for name, entry in registries[kind].items():
        if BASE not in entry:
            given = {key: value for key, value in entry.items() if key != TITLE}
            model = validate(REGISTRIES[kind], given, name)
            assert plain(model) == model.model_dump(mode="json"), name
