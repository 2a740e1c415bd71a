"""Who follows docs/extend.md and docs/adding-an-initializer.md word for word extends a study."""

import json
import os
import re
import shutil

import pytest
import yaml

from lexigraft.corpus import loader, readers
from lexigraft.corpus.loader import Loader, register_loader
from lexigraft.corpus.loaders.jsonl import JsonRows
from lexigraft.corpus.local_files import check_files
from lexigraft.errors import UserError
from lexigraft.settings import plain, validate
from tests import preloaded_python
from tests.conftest import run_command
from tests.workflow.conftest import REPOSITORY, copy_project
from workflow.config.texts import Text

PAGE = (REPOSITORY / "docs/extend.md").read_text("utf-8")
INITIALIZER, OUTSIDE = (
    (REPOSITORY / "docs/adding-an-initializer.md")
    .read_text("utf-8")
    .split("## A method outside the repository")
)
SECTIONS = [
    PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    for title in ("A format of text", "A task", "A metric", "Vectors of tokens", "An objective")
]
TEST = "tests/initialization/methods/test_length_mean.py"


def code_blocks(text: str) -> tuple[dict[str, str], dict]:
    """The code of each file, which the text before it names last; and the parts of studies."""
    files: dict[str, str] = {}
    study: dict = {}
    split = re.split(r"```\w+\n(.*?)```", text, flags=re.DOTALL)
    for before, code in zip(split[::2], split[1::2], strict=False):
        if re.match(r"\w+:\n", code):
            study |= yaml.safe_load(code)
        else:
            files[re.findall(r"`((?:lexigraft|config|tests)/[\w./]+\.\w+)`", before)[-1]] = code
    return files, study


@pytest.fixture(scope="module")
def project(tmp_path_factory, miniature):
    """A copy of the project with the files of all sections, and a study that uses them."""
    copy = copy_project(tmp_path_factory.mktemp("extended") / "project")
    for file in ("pyproject.toml", "tests/conftest.py", "tests/initialization/conftest.py"):
        (copy.folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / file, copy.folder / file)
    config = {**miniature, "tasks": {}, "run_tasks": {}}
    for section in (*SECTIONS, INITIALIZER):
        files, study = code_blocks(section)
        for file, code in files.items():
            path = copy.folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            earlier = path.read_text("utf-8") if path.exists() else ""
            path.write_text(earlier + code, encoding="utf-8")
        for key in ("tasks", "run_tasks"):
            config[key] |= study.get(key, {})
        if "strategies" in study:
            [(strategy, settings)] = study["strategies"].items()
            config["strategies"] = {strategy: miniature["strategies"]["short"] | settings}
    config["tasks"]["translation-lengths"] |= {"samples": 2, "max_new_tokens": 4}
    names = ["focus-characters", "length-mean"]
    config["cells"] = [miniature["cells"][1] | {"initializers": names, "strategies": [strategy]}]
    captions = [
        f"{number}\n00:00:01 --> 00:00:02\nCaption {chr(97 + number % 26) * number}\n"
        for number in range(1, 200)
    ]
    (copy.folder / "film.srt").write_text("\n".join(captions), encoding="utf-8")
    [text] = re.findall(r"`text: (\{.*?\})`", SECTIONS[0])
    greek = miniature["languages"]["greek"] | {"text": yaml.safe_load(text)}
    copy.config = config | {"languages": {**miniature["languages"], "greek": greek}}
    return copy


@pytest.fixture(scope="module")
def finished(project):
    for arguments in (["--until", "evaluate"], ["--", "results/corpus/greek/card.json"]):
        run = project.snakemake(*arguments)
        assert run.returncode == 0, run.stderr[-3000:]
    return project.folder / "results"


def records_of(finished, task):
    files = [*finished.glob(f"evaluation/**/{task}/run-0/record.json")]
    assert len(files) == 2
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def test_a_corpus_is_read_with_the_loader(finished):
    train = (finished / "corpus/greek/train.txt").read_text().splitlines()
    assert len(train) == 100
    assert all(line.startswith("Caption ") for line in train)


def test_cells_are_evaluated_on_the_task(finished):
    for record in records_of(finished, "token-accuracy"):
        assert record["kind"] == "token_accuracy"
        assert 0 <= record["metrics"]["token_accuracy"] <= 1
        assert record["details"]["tokens"] > 20


def test_outputs_are_scored_by_the_metric(finished):
    for record in records_of(finished, "translation-lengths"):
        assert list(record["metrics"])[:3] == ["chrf", "chrf_sentence_mean", "length_ratio"]
        assert record["details"]["length_ratio_signature"] == "ratio of characters"
    [file, _] = finished.glob("evaluation/**/translation-lengths/run-0/predictions.jsonl")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    ratios = [len(row["output"]) / len(row["reference"]) for row in rows]
    assert [row["length_ratio"] for row in rows] == ratios


def test_vectors_count_characters(project):
    code = """
import lexigraft
from lexigraft.auxiliary.registry import compute_vectors

tokenizer = lexigraft.train_tokenizer(["mto na mvua"] * 5, "byte-level-bpe", size=262)
vectors, _ = compute_vectors("characters", tokenizer, {"dimensions": 128}, {})
print(vectors.vectors[vectors.tokens.tolist().index(tokenizer.convert_tokens_to_ids("m"))].sum())
"""
    (project.folder / "count.py").write_text(code, encoding="utf-8")
    run = run_command([project.python, "count.py"], cwd=project.folder, env=project.environment())
    assert run.stdout == "1.0\n", run.stderr


def test_cells_are_trained_with_the_objective(finished):
    for card in finished.glob("training/tiny/telugu/expand-50/*/smoothed/*/card.json"):
        phase = json.loads(card.read_text(encoding="utf-8"))["job"]["settings"]["phases"][0]
        assert (phase["objective"], phase["smoothing"]) == ("smoothed", 0.2)
        log = (card.parent / "log.jsonl").read_text(encoding="utf-8")
        steps = [line for line in map(json.loads, log.splitlines()) if line["event"] == "step"]
        assert len(steps) > 1


def test_the_test_of_the_initializer_passes(project):
    done = run_command(
        [project.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", TEST],
        cwd=project.folder,
        env=os.environ | {"PYTHONPATH": str(project.folder)},
    )
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout[-2000:]


def test_the_initializer_works_in_a_file_outside_the_repository(tmp_path):
    files, _ = code_blocks(INITIALIZER)
    named, used = re.findall(r"```python\n(.*?)```", OUTSIDE, flags=re.DOTALL)
    header, name = named.splitlines()
    method = files["lexigraft/initialization/methods/length_mean.py"]
    assert header in method
    method = method.replace("    title =", f"{name}\n    title =", 1)
    (tmp_path / "my_methods.py").write_text(method, encoding="utf-8")
    code = f"import lexigraft\n{used}print(type(initializer).__name__, initializer.power)"
    (tmp_path / "use.py").write_text(code, encoding="utf-8")
    run = run_command([preloaded_python.python(), "use.py"], cwd=tmp_path)
    assert run.stdout == "LengthMean 2.0\n", run.stderr


def test_a_registered_loader_is_part_of_a_study(monkeypatch):
    monkeypatch.setattr(loader, "_registered", {})

    class Reversed(JsonRows):
        loader: str
        key: str

    def shards(text, inputs):
        return [lambda: iter([text["key"][::-1]])]

    register_loader("reversed", Loader(text=(Reversed,), read_texts=shards))
    keys = {"loader": "reversed", "path": "x", "key": "abc"}
    assert plain(validate(Text, keys, "languages.te.text")) == keys
    assert list(readers.read_sentences(keys)) == ["cba"]
    with pytest.raises(UserError, match=r"languages\.te\.text\.path: x: there is no such file"):
        check_files({"text": keys}, "languages.te")
    with pytest.raises(UserError, match=r"languages\.te\.text: .*key"):
        validate(Text, {"loader": "reversed", "path": "x"}, "languages.te.text")
