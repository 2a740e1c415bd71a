"""The harness's data sets are kept with the results, from a local folder, or their lack is told."""

import json
import os
import shutil

import pytest

from lexigraft.errors import UserError
from lexigraft.evaluation.harness.benchmark_state import benchmark_state, new_state
from lexigraft.evaluation.harness.benchmarks import longest_texts
from lexigraft.evaluation.learned.checkpoint import STATE
from tests.conftest import REPOSITORY


def test_the_data_sets_of_a_task_are_stored_and_read_without_the_hub(prepared, tmp_path):
    from lexigraft.evaluation.harness.benchmarks import load_task, stored_data_sets

    place = prepared("xnli_de", "xnli")
    card = json.loads((place / "card.json").read_text())
    (kept,) = card["datasets"]
    assert kept["request"]["path"] == "facebook/xnli" and kept["request"]["name"] == "de"
    assert kept["rows"] == {"train": 3, "validation": 4}
    assert kept["place"].endswith("facebook/xnli") and card["used"] == [kept["place"]]
    assert card["available"] and card["why"] is None
    before = {file: file.stat().st_mtime_ns for file in place.rglob("*")}
    assert all((place / file).is_file() for file in card["files"])
    with stored_data_sets(place / "data"):
        (task,) = load_task("xnli_de", "xnli")["tasks"].values()
        assert [row["premise"] for row in task.eval_docs] == [
            "Es regnet",
            "Sie lacht",
            "Er geht",
            "Ja",
        ]
    assert {file: file.stat().st_mtime_ns for file in place.rglob("*")} == before
    # Of another task nothing was kept.
    with stored_data_sets(place / "data"), pytest.raises(UserError, match="has no 'facebook/xnli'"):
        load_task("xnli_en", "xnli")


@pytest.mark.fault(
    "network",
    "the data of a benchmark is unavailable",
    "its task is not scored and says how to obtain the data; the study continues",
)
def test_the_record_of_a_missing_data_set_says_how_to_download_it(hub, tmp_path):
    from lexigraft.evaluation.harness.benchmarks import prepare_benchmark

    files, facts = prepare_benchmark("hellaswag", "hellaswag", str(hub), tmp_path)
    assert files == [] and not facts["available"] and facts["used"] is None
    assert facts["why"].startswith("Rowan/hellaswag (default) cannot be read: ")
    assert (
        "`hf download Rowan/hellaswag --repo-type dataset --local-dir FOLDER/Rowan/" in facts["why"]
    )
    assert "\n" not in facts["why"]
    # Nothing half-written is left.
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_the_harness_does_not_have_is_refused(tmp_path):
    from lexigraft.evaluation.harness.benchmarks import prepare_benchmark

    with pytest.raises(UserError, match=r"'xnli_dd' is not in lm-evaluation-harness .*'xnli_de'"):
        prepare_benchmark("xnli_dd", "xnli", None, tmp_path)
    with pytest.raises(UserError, match="folder 'xnlu' is not in lm-evaluation-harness"):
        prepare_benchmark("xnli_de", "xnlu", None, tmp_path)
    with pytest.raises(UserError, match=r"wikitext of .* has output type loglikelihood_rolling"):
        prepare_benchmark("wikitext", "wikitext", None, tmp_path)


def test_the_parquet_copy_is_read_of_a_data_set_with_a_script(hub, tmp_path, monkeypatch):
    """On a branch of its own the hub keeps each data set as Parquet: config/split/n.parquet."""
    import datasets

    from lexigraft.evaluation.harness import benchmarks as data

    rows = hub / "Muennighoff/xwinograd/jp/test.jsonl"
    asked = []

    class Api:
        def list_repo_files(self, name, *, repo_type, revision):
            assert (name, repo_type, revision) == ("org/set", "dataset", "refs/convert/parquet")
            return [
                "README.md",
                "jp/test/0000.parquet",
                "jp/eval/0000.parquet",
                "en/test/0.parquet",
            ]

    def load(path, name=None, **options):
        if path != "org/set":
            return datasets.load_dataset(path, name, **options)
        if "revision" not in options:
            raise RuntimeError("Dataset scripts are no longer supported, but found set.py")
        asked.append((name, options))
        table = datasets.Dataset.from_list([json.loads(line) for line in rows.open()])
        return datasets.DatasetDict(dict.fromkeys(options["data_files"], table))

    monkeypatch.setattr(data, "HfApi", Api)
    monkeypatch.setattr(data, "load_dataset", load)
    with data.storing_data_sets(tmp_path, None) as kept:
        found = datasets.load_dataset(path="org/set", name="jp")
    files = {"test": ["jp/test/0000.parquet"], "eval": ["jp/eval/0000.parquet"]}
    assert asked == [(None, {"revision": "refs/convert/parquet", "data_files": files})]
    assert kept[0]["rows"] == {"test": 3, "eval": 3} and found["eval"][0]["option1"] == "the cup"


def test_the_data_sets_of_a_task_are_those_of_its_definition():
    from lexigraft.evaluation.harness.benchmarks import data_sets_of
    from lexigraft.source.hub_check import HubAsset

    def names(tasks, folder):
        return {task: [one.name for one in found]
                for task, found in data_sets_of(tasks, folder).items()}  # fmt: skip

    found = names(["xnli_de", "xnli_sw"], "xnli")
    assert found == {"xnli_de": ["facebook/xnli"], "xnli_sw": ["facebook/xnli"]}
    group = data_sets_of(["mmlu"], "mmlu/default")["mmlu"]  # of groups of tags of tasks
    assert {one.name for one in group} == {"cais/mmlu"}
    own = data_sets_of(["xnli_cw2v_ta"], str(REPOSITORY / "config/harness/xnli-cw2v"))
    files = ("ta/validation/0000.parquet", "ta/test/0000.parquet")
    [found] = own["xnli_cw2v_ta"]
    assert found == HubAsset("data set", "Divyanshu/indicxnli", "refs/convert/parquet", files)
    with pytest.raises(UserError, match="'xnli_dd' is not in lm-evaluation-harness"):
        data_sets_of(["xnli_de", "xnli_dd"], "xnli")


def test_a_data_set_is_read_at_the_commit_that_is_locked(tmp_path, monkeypatch):
    """The one of its branch when it was first read; another lock prepares the benchmark anew."""
    import datasets

    from lexigraft.evaluation.harness import benchmarks as data
    from lexigraft.source import revision_lock
    from lexigraft.source.hub_check import HubAnswer

    asked, one, other = [], "1" * 40, "2" * 40

    def load(path, name=None, **options):
        asked.append(options["revision"])
        return datasets.DatasetDict({"test": datasets.Dataset.from_list([{"a": 1}])})

    monkeypatch.setattr(data, "load_dataset", load)
    monkeypatch.setattr(revision_lock, "ask_hub", lambda asset: HubAnswer("", commit=one))
    for number in range(2):
        with data.storing_data_sets(tmp_path / f"{number}", None, tmp_path) as stored:
            datasets.load_dataset(path="org/set", name="jp")
        monkeypatch.setattr(revision_lock, "ask_hub", lambda asset: HubAnswer("", commit=other))
    assert asked == [one, one]
    key = "datasets/org/set@main"
    assert stored[0]["commits"] == revision_lock.read_lock(tmp_path) == {key: one}
    (tmp_path / STATE).write_text(json.dumps(new_state("there", None, [], {key: one})))
    assert benchmark_state(None, tmp_path, {key: one, "models/m@main": other}) == "there"
    assert benchmark_state(None, tmp_path, {key: other}) not in ("there", None)


def test_a_benchmark_is_prepared_again_once_data_appears(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder, local = tmp_path / "benchmark", tmp_path / "data"
    folder.mkdir()

    def prepared(state, used):
        (folder / STATE).write_text(json.dumps(new_state(state, str(local), used, {})))

    first = benchmark_state(str(local), folder, {})
    prepared(first, None)
    assert benchmark_state(str(local), folder, {}) == first
    for appears in ("data/org/set", "cache/datasets--org--set"):
        before = benchmark_state(str(local), folder, {})
        (tmp_path / appears).mkdir(parents=True)
        assert benchmark_state(str(local), folder, {}) != before
    before = benchmark_state(str(local), folder, {})
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert benchmark_state(str(local), folder, {}) not in (first, before)
    # Once it was there, other data sets are no matter.
    (local / "org/set/rows.jsonl").write_text("{}\n")
    prepared("there", [str(local / "org/set")])
    (local / "org/other").mkdir()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert benchmark_state(str(local), folder, {}) == "there"
    os.utime(local / "org/set/rows.jsonl", (1, 1))  # as a copy or a checkout has it
    assert benchmark_state(str(local), folder, {}) == "there"
    (local / "org/set/rows.jsonl").write_text('{"a": 1}\n')
    assert benchmark_state(str(local), folder, {}) != "there"
    # What vanishes leaves the scores that were made.
    shutil.rmtree(local)
    assert benchmark_state(str(local), folder, {}) == "there"
    prepared("from the hub", [])
    assert benchmark_state(None, folder, {}) == "from the hub"


def test_only_tested_examples_are_searched(prepared):
    place = prepared("arc_de", "okapi/arc_multilingual")
    assert longest_texts(place) == ["die Sonne am Mittag", "Was schwimmt?", "Was ist süß?"]


def test_our_definition_of_xnli_has_the_prompt_of_cw2v(hub, tmp_path):
    from lexigraft.evaluation.harness.benchmarks import (
        load_task,
        prepare_benchmark,
        stored_data_sets,
    )

    rows = [{"premise": f"p{at} ", "hypothesis": f"h{at}", "label": at % 3} for at in range(5)]
    place = hub / "Divyanshu/indicxnli/ta"
    import pandas

    for split in ("validation", "test"):
        (place / split).mkdir(parents=True)
        pandas.DataFrame(rows).to_parquet(place / split / "0000.parquet")
    folder = str(REPOSITORY / "config/harness/xnli-cw2v")
    _, facts = prepare_benchmark("xnli_cw2v_ta", folder, str(hub), tmp_path / "out")
    assert facts["available"], facts["why"]
    with stored_data_sets(tmp_path / "out/data"):
        (task,) = load_task("xnli_cw2v_ta", folder)["tasks"].values()
        task.set_fewshot_seed(seed=1)
        prompt = task.fewshot_context(task.eval_docs[4], num_fewshot=2)
        assert prompt.endswith(
            "given premise.\n\nPremise: p0\nHypothesis: h0\nAnswer: true\n\n"
            "Premise: p1\nHypothesis: h1\nAnswer: unknown\n\nPremise: p4\nHypothesis: h4\nAnswer:"
        )
        assert task.doc_to_choice(task.eval_docs[4]) == ["true", "unknown", "false"]


def test_our_definition_of_copa_asks_like_the_harness(hub, tmp_path):
    """Its own `copa` is the same questions without labels; 500 have labels elsewhere."""
    from lm_eval.tasks.super_glue.copa import utils

    from lexigraft.evaluation.harness.benchmarks import (
        load_task,
        prepare_benchmark,
        stored_data_sets,
    )

    place = hub / "pkavumba/balanced-copa"
    place.mkdir(parents=True)
    (place / "test.csv").write_text(
        "id,premise,question,choice1,choice2,label,mirrored\n"
        "501,The item was packaged in bubble wrap.,cause,It was fragile.,It's small.,0,False\n"
        '502,"I said ""no"".",effect,He left.,She wasn\'t sad.,1,False\n'
    )
    shutil.copy(place / "test.csv", place / "train.csv")
    folder = str(REPOSITORY / "config/harness/copa")
    _, facts = prepare_benchmark("copa_test", folder, str(hub), tmp_path / "out")
    assert facts["available"], facts["why"]
    with stored_data_sets(tmp_path / "out/data"):
        (task,) = load_task("copa_test", folder)["tasks"].values()
    assert len(task.eval_docs) == 2
    for example in task.eval_docs:
        assert task.doc_to_text(example) == utils.doc_to_text(example)
        choices = [f" {choice}" for choice in task.doc_to_choice(example)]
        assert choices == utils.doc_to_choice(example)
        assert choices[task.doc_to_target(example)] == utils.doc_to_target(example)


def test_definitions_of_a_user_run_no_code(tmp_path):
    from lexigraft.evaluation.harness.benchmarks import load_task

    with pytest.raises(UserError, match="there is no such folder"):
        load_task("mine", str(tmp_path / "none"))
    (tmp_path / "mine.yaml").write_text("task: mine\nprocess_docs: !function utils.process\n")
    with pytest.raises(UserError, match=r"mine\.yaml: has a !function"):
        load_task("mine", str(tmp_path))
