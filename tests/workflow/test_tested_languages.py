"""Which texts a task tests, on which cells and checkpoints of them: from the config alone."""

import json
from copy import deepcopy

import pytest

from lexigraft.errors import UserError
from workflow.config.registries import load_registries, resolve
from workflow.stages import Study

CELL = {
    "source": "tiny", "language": "greek", "vocabulary": "expand-50", "initializer": "align",
    "strategy": "short", "seed": "0", "run": "0",
}  # fmt: skip


@pytest.fixture(scope="module")
def registries():
    return load_registries()


@pytest.fixture
def config(miniature):
    """With checkpoints, Telugu's translation as a task of its own, and Greek without any."""
    config = deepcopy(miniature)
    config["strategies"]["short"]["checkpoints"] = 3
    config["tasks"]["translation-te"] = {
        **config["tasks"]["translation-short"], "language": "telugu",
    }  # fmt: skip
    config["run_tasks"] = {
        "perplexity": {"checkpoints": True},
        "translation-te": {"languages": ["greek"], "runs": 2},
    }
    return config


def study(config, registries):
    return Study(resolve(config, registries, require_files=False))


def described(config, registries, rule, **wildcards):
    return json.loads(job(study(config, registries), rule, {**CELL, **wildcards}))


def test_a_task_that_names_a_language_reads_its_texts_whatever_the_cells_language(
    config, registries
):
    found = config.described(registries, "evaluate", task="translation-te")
    assert found["inputs"]["corpus"] == "results/corpus/telugu"
    assert found["language"] == "te"
    assert found["inputs"]["cell"].startswith("results/training/tiny/greek/")
    # The same examples as of Telugu's own cells; and no setting that the task does not know.
    assert found["seed"][2] == "telugu" and "language" not in found["settings"]
    texts = study(config, registries).tested_texts({**CELL, "task": "translation-te"})
    assert "results/corpus/telugu/tasks/translation.jsonl" in texts
    own = config.described(registries, "evaluate", task="perplexity")
    assert own["inputs"]["corpus"] == "results/corpus/greek"


def test_a_task_is_run_on_cells_of_its_languages_alone(config, registries):
    records = [r for r in study(config, registries).records() if "translation-te" in r]
    assert records == [
        f"results/evaluation/tiny/greek/expand-50/align/short/seed-0/translation-te/run-{run}"
        "/record.json" for run in (0, 1)
    ]  # fmt: skip


def test_checkpoints_are_scored_by_tasks_that_ask_for_them(config, registries):
    records = study(config, registries).checkpoint_records()
    # Three trained cells, and of each the two checkpoints before the last.
    assert len(records) == 3 * 2
    assert all("/perplexity/run-0/checkpoint-" in record for record in records)
    dependencies = study(config, registries).report_dependencies()
    assert set(records) <= set(dependencies)
    assert study(config, registries).report_inputs()["checkpoints"] == records


def test_a_checkpoint_is_scored_as_its_cell_is(config, registries):
    cell = config.described(registries, "evaluate", task="perplexity")
    found = config.described(registries, "evaluate_checkpoint", task="perplexity", checkpoint="2")
    assert found["inputs"].pop("cell") == cell["inputs"].pop("cell") + "/checkpoint-2"
    assert found["inputs"] == cell["inputs"] and found["seed"] == cell["seed"]
    assert found["outputs"]["record"].endswith("/run-0/checkpoint-2/record.json")
    assert found["checkpoint"] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["strategies"]["short"].update(checkpoints=1),
         "config.run_tasks.perplexity.checkpoints: no strategy of this study keeps any"),
        (lambda c: c["tasks"]["translation-te"].update(language="telugo"),
         "tasks.translation-te.language: 'telugo' is not known; did you mean 'telugu'?"),
        (lambda c: c["run_tasks"]["perplexity"].update(languages=["grek"]),
         "config.run_tasks.perplexity.languages: 'grek' is not of a cell; did you mean 'greek'?"),
        (lambda c: c["strategies"]["short"].update(checkpoints=0),
         "strategies.short.checkpoints: 0 is not at least 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(change, message, config, registries):
    change(config)
    with pytest.raises(UserError) as error:
        resolve(config, registries, require_files=False)
    assert message in str(error.value)
