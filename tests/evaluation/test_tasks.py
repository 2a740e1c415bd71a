import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lexigraft.errors import UserError
from lexigraft.evaluation.evaluate import record
from lexigraft.evaluation.task_kinds import Measurement, kinds, task_file, task_kind

REPOSITORY = Path(__file__).resolve().parent.parent.parent
TASKS = yaml.safe_load((REPOSITORY / "config" / "tasks.yaml").read_text())["tasks"]
# Entries that are not their kind at its defaults.
DIFFERENT = {
    "perplexity-windows": {"window": 2048},
    "speed-summarization": {"prompts_from": "summarization"},
    "translation-alma": {"prompt": "alma"},
    "translation-alma-into-english": {"prompt": "alma", "into_english": True},
    "translation-into-english": {"into_english": True},
    "translation-ntrex-into-english": {"into_english": True},
    "translation-5-shot": (
        five := {"prompt": "names", "samples": None, "max_new_tokens": 256, "beams": 5}
    ),
    "translation-5-shot-into-english": five | {"into_english": True},
    "translation-4-shot": (four := {"prompt": "cw2v", "samples": None, "max_new_tokens": 256}),
    "translation-4-shot-into-english": four | {"into_english": True},
    "summarization-as-published": {"select": "shortest", "rouge_tokenizer": "google/mt5-base"},
    "titles-4-shot": {
        "prompt": "cw2v",
        "samples": 1000,
        "select": "first",
        "max_new_tokens": 50,
    },
    "mlqa": {"shots": 3},
    "mlqa-english-text": {"shots": 3, "answers_in": "en"},
    "mlqa-english-question": {"shots": 3, "questions_in": "en"},
    "truthfulqa-0-shot": {"metric": "acc_norm"},
    "xnli": (tuned := {"epochs": 5, "learning_rate": 3.0e-5, "weight_decay": 0.1})
    | {"batch_size": 64, "length": 256},
    "wikiann": tuned | {"batch_size": 16, "warmup": 0.05, "length": 512},
    "xquad": {"shots": 3, "normalization": "squad"},
    "indicqa": {"shots": 3, "normalization": "squad"},
    "questions-4-shot": {"normalization": "squad", "prompt": "cw2v", "max_new_tokens": 50},
    "squad-answers": {"shots": 3, "normalization": "squad"},
    "arc-0-shot": {"metric": "acc_norm"},
}


def test_every_kind_has_its_file_and_a_function():
    assert {"perplexity", "speed", "summarization", "translation"} <= set(kinds())
    for kind in kinds():
        assert (REPOSITORY / task_file(kind)).is_file()
        assert callable(task_kind(kind).evaluate)


@pytest.mark.parametrize("name", TASKS)
def test_the_registered_tasks_have_all_settings_of_their_kind_and_say_where_they_differ(name):
    # Where texts come from is no setting of a kind; how many examples are shown is in a name.
    given, sources = TASKS[name].items(), ("kind", "language", "examples", "harness", "data")
    settings = {key: value for key, value in given if key not in sources}
    shown = re.search(r"-(\d)-shot", name)
    named = {"shots": int(shown[1])} if shown else {}
    kind = task_kind(TASKS[name]["kind"])
    assert settings == vars(kind.settings()) | named | DIFFERENT.get(name, {})


def test_an_unknown_kind_names_the_known_ones():
    with pytest.raises(UserError, match=r"kind 'bleu' is not one of .*translation"):
        task_file("bleu")


def test_a_record_holds_what_the_report_reads(make_job):
    job = make_job("speed", prompts=4)
    found = record(job, Measurement({"x": 1.0}, {"y": "z"}))
    assert found["metrics"] == {"x": 1.0}
    assert found["cell"]["language"] == "el-kolibri"
    assert (found["task"], found["kind"], found["run"]) == ("speed", "speed", 0)
    assert found["seed"] == job["seed"]
    assert "transformers" in found["versions"]


def test_what_tasks_declare_is_read_without_torch_or_numpy():
    code = (
        "import sys; from lexigraft.evaluation.task_kinds import kinds, task_kind; "
        "[task_kind(kind) for kind in kinds()]; "
        "assert not {'torch', 'transformers', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)
