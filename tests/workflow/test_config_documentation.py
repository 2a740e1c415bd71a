"""config/README.md has the keys, bounds, defaults and meanings of the models of a config."""

import pytest

from lexigraft.settings import plain, validate
from lexigraft.training.settings import Phase, Strategy
from workflow.config.documentation import README, TABLE, documented, models, table
from workflow.config.registries import BASE, REGISTRIES, TITLE


def test_the_tables_of_the_readme_are_those_of_the_models():
    text = README.read_text(encoding="utf-8")
    assert documented(text) == text, "run `make config-tables`"


def test_every_registry_has_a_table_and_every_key_a_meaning():
    names = [name for _, name, *_ in TABLE.findall(README.read_text(encoding="utf-8"))]
    tables = {name: models()[name] for name in names if name in models()}
    for name, model in tables.items():
        for key, field in model.model_fields.items():
            assert field.description, f"{name}.{key}"
    shown = {model for table in tables.values() for model in table.__mro__}
    assert {model for model in REGISTRIES.values() if isinstance(model, type)} <= shown


def test_a_row_has_type_bounds_and_default():
    rows = table(Strategy) + table(Phase)
    for row in (
        "| `checkpoints` | whole number, from 1 | `1` |",
        "| `sentences` | whole number, from 1, or `null` | `null` |",
        "| `length` | whole number, from 8 | required |",
    ):
        assert f"\n{row}" in rows


@pytest.mark.parametrize("kind", REGISTRIES)
def test_plain_entries_are_what_pydantic_would_make_of_them(kind, registries):
    for name, entry in registries[kind].items():
        if BASE not in entry:
            given = {key: value for key, value in entry.items() if key != TITLE}
            model = validate(REGISTRIES[kind], given, name)
            assert plain(model) == model.model_dump(mode="json"), name
