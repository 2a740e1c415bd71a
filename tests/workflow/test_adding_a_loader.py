"""A loader that is added as docs/extend.md says is read by the real Snakefile."""

import re

import pytest

from lexigraft.corpus import loader, readers
from lexigraft.corpus.loader import Loader, register_loader
from lexigraft.corpus.loaders.jsonl import JsonRows
from lexigraft.corpus.local_files import check_files
from lexigraft.errors import UserError
from lexigraft.settings import plain, validate
from tests.workflow.conftest import REPOSITORY, copy_project
from workflow.config.texts import Text

PAGE = REPOSITORY / "docs" / "extend.md"


@pytest.fixture
def followed(tmp_path, miniature):
    """A copy of the project with the file of the page, and a study that reads subtitles."""
    section = PAGE.read_text(encoding="utf-8").split("## A format of text")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    file = re.search(r"`(lexigraft/corpus/loaders/\w+\.py)`:\n", section)[1]
    (keys,) = re.findall(r"`text: (\{.*?\})`", section)
    checkout = copy_project(tmp_path / "project")
    (checkout.folder / file).write_text(code, encoding="utf-8")
    captions = [
        f"{number}\n00:00:01 --> 00:00:02\nCaption {chr(97 + number % 26) * number}\n"
        for number in range(1, 200)
    ]
    (checkout.folder / "film.srt").write_text("\n".join(captions), encoding="utf-8")
    checkout.config = miniature
    name, path = re.fullmatch(r"\{loader: (\w+), path: (\S+)\}", keys).groups()
    checkout.change(
        lambda config: config["languages"]["telugu"].update(text={"loader": name, "path": path})
    )
    return checkout


def test_the_corpus_is_read_with_the_loader_of_the_page(followed):
    done = followed.snakemake("results/corpus/telugu/card.json")
    assert done.returncode == 0, done.stderr
    train = (followed.folder / "results/corpus/telugu/train.txt").read_text().splitlines()
    assert len(train) == 100
    assert all(line.startswith("Caption ") for line in train)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(loader, "_registered", {})

    class Reversed(JsonRows):
        loader: str
        key: str

    def shards(text, inputs):
        return [lambda: iter([text["key"][::-1]])]

    register_loader("reversed", Loader(text=(Reversed,), read_texts=shards))


def test_a_registered_loader_is_part_of_a_study(registered):
    keys = {"loader": "reversed", "path": "x", "key": "abc"}
    assert plain(validate(Text, keys, "languages.te.text")) == keys
    assert list(readers.read_sentences(keys)) == ["cba"]
    with pytest.raises(UserError, match=r"languages\.te\.text\.path: x: there is no such file"):
        check_files({"text": keys}, "languages.te")
    with pytest.raises(UserError, match=r"languages\.te\.text: .*key"):
        validate(Text, {"loader": "reversed", "path": "x"}, "languages.te.text")
