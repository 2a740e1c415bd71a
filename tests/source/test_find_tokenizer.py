"""Tokenizers without a model: from folders and from the files of packages."""

import json

import pytest

from lexigraft.errors import UserError
from lexigraft.source.hub import find_tokenizer
from tests.conftest import package_folder

MISTRAL = {"package": "mistral-common", "file": "mistral_common/data/tokenizer.model.v1"}


def test_a_source_of_the_results(tmp_path, smollm2_folder_tiny, smollm2_cut):
    (tmp_path / "source.json").write_text(json.dumps({"path": str(smollm2_folder_tiny)}))
    tokenizer, _ = find_tokenizer({"folder": str(tmp_path)})
    assert len(tokenizer) == len(smollm2_cut)


def test_a_sentencepiece_model_of_a_package(mistral_tokenizer, lines):
    tokenizer, commit = find_tokenizer(MISTRAL, package_folder("mistral-common"))
    assert commit is None
    assert tokenizer(lines)["input_ids"] == mistral_tokenizer(lines)["input_ids"]


def test_a_tokenizer_json_of_a_package(tmp_path, byte_tokenizer):
    own = byte_tokenizer(("t", "h"))
    own.backend_tokenizer.save(str(tmp_path / "any.name"))
    tokenizer, _ = find_tokenizer({"package": "p", "file": "any.name"}, tmp_path)
    assert tokenizer("the")["input_ids"] == own("the")["input_ids"]


@pytest.mark.bad_input("model", "a damaged tokenizer", "a one-line error message names the file")
@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "not in package p"), ("{", "not a tokenizer"), ("no model", "not a SentencePiece")],
)
def test_what_is_no_tokenizer_is_named(tmp_path, content, message):
    if content is not None:
        (tmp_path / "file").write_text(content)
    with pytest.raises(UserError, match=message) as error:
        find_tokenizer({"package": "p", "file": "file"}, tmp_path)
    assert "\n" not in str(error.value)
