"""Data sets of tasks are read in the layouts of the hub: their real names, and invented rows."""

import pyarrow
import pytest
from pyarrow.parquet import write_table

from lexigraft.artifacts.records import read_jsonl
from lexigraft.corpus.examples import prepare_examples, prepare_test_set
from lexigraft.corpus.readers import read_articles
from lexigraft.settings import plain
from tests.workflow.conftest import study_of_entries
from workflow.config.registries import entries_of, load_registries

QUESTION = {"id": "1", "context": "Bern ist klein.", "question": "Was ist klein?",
            "answers": {"answer_start": [0], "text": ["Bern"]}}  # fmt: skip
TWO_SENTENCES = {"premise": "Es regnet.", "hypothesis": "Es ist nass.", "label": 0}
WORDS = {"tokens": ["Bern", "ist", "klein"], "ner_tags": [5, 0, 0], "langs": ["de"] * 3,
         "spans": ["LOC: Bern"]}  # fmt: skip
ARTICLE = {"id": "1", "url": "https://example.org/1", "title": "Ein Titel",
           "summary": "Eine Zusammenfassung", "text": "Ein langer Text"}  # fmt: skip
MLSUM = {"text": "Ein langer Text", "target": "Eine Zusammenfassung", "topic": "politik",
         "url": "https://example.org/1", "title": "Ein Titel", "date": "00/02/2010"}  # fmt: skip
# Task and code -> file, rows, and what is read of them: (key of a row, value).
GENERATED = {
    ("mlqa", "de"): ("mlqa.de.de/test/0000.parquet", QUESTION, ("question", "Was ist klein?")),
    ("xquad", "de"): ("xquad.de/validation-00000-of-00001.parquet", QUESTION,
                      ("question", "Was ist klein?")),
}  # fmt: skip
LEARNED = {
    ("xnli", "de"): ("de/test-00000-of-00001.parquet", TWO_SENTENCES),
    ("xnli", "te"): ("te/test/0000.parquet", TWO_SENTENCES),
    ("wikiann", "de"): ("de/test-00000-of-00001.parquet", WORDS),
    ("squad", "te"): ("indicqa.te/test/0000.parquet", QUESTION),
}


# Task and part -> file and a row of its training or validation examples, which are English.
TRAINED = {
    ("wikiann", "validation"): ("en/validation-00000-of-00001.parquet", WORDS),
    ("squad", "train"): ("plain_text/train-00000-of-00001.parquet", {**QUESTION, "title": "Bern"}),
}


@pytest.fixture(scope="module")
def study():
    return study_of_entries(tasks=load_registries()["tasks"])


def copy_of(text, file, row, folder):
    """A text of settings that is read from a copy of its data set with one row."""
    place = folder / "data"
    (place / file).parent.mkdir(parents=True)
    write_table(pyarrow.Table.from_pylist([row]), place / file)
    if "data_files" not in text:  # then the data set's card says where its configurations are
        name, split = file.split("/")[0], text["split"]
        configs = f"- config_name: {name}\n  data_files:\n  - split: {split}\n    path: {file}"
        (place / "README.md").write_text(f"---\nconfigs:\n{configs}\n---\n")
    return {key: value for key, value in text.items() if key != "revision"} | {"name": str(place)}


@pytest.mark.parametrize(("task", "code"), GENERATED)
def test_a_task_that_generates_reads_its_tests(task, code, study, tmp_path):
    file, row, (key, value) = GENERATED[task, code]
    settings = study.example_settings(task, f"test-{code}")
    settings["text"] = copy_of(settings["text"], file, row, tmp_path)
    [written], _ = prepare_test_set(settings, tmp_path / "out")
    [found] = read_jsonl(tmp_path / "out" / written)
    assert found[key] == value


@pytest.mark.parametrize(("task", "part"), LEARNED | TRAINED)
def test_a_task_that_fine_tunes_reads_its_examples(task, part, study, tmp_path):
    file, row = (LEARNED | TRAINED)[task, part]
    settings = study.example_settings(task, part)
    settings["text"] = copy_of(settings["text"], file, row, tmp_path)
    [written], _ = prepare_examples(settings, tmp_path / "out")
    assert len(read_jsonl(tmp_path / "out" / written)) == 1


@pytest.mark.parametrize(
    ("language", "file", "row"),
    [("te", "telugu", ARTICLE), ("de", "de", MLSUM)],
)
def test_articles_of_a_language_have_their_summaries(language, file, row, tmp_path):
    text = plain(entries_of("languages")[language].summarization)
    text = copy_of(text, f"{file}/test/0000.parquet", row, tmp_path)
    text["data_files"] = text["data_files"][:1]  # the other part has a file of its own
    assert list(read_articles(text)) == [("Ein langer Text", "Eine Zusammenfassung")]
