"""Preparation of sources: local folders, and packages that lack something."""

import hashlib
import json

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from lexigraft.errors import UserError
from lexigraft.source.gguf import gguf_to_folder
from lexigraft.source.matrices import read_matrices
from lexigraft.source.model import open_source
from lexigraft.source.preparation import (
    check_same_tokenizer,
    prepare_source,
)
from lexigraft.source.tokenizer import load_tokenizer


def test_a_local_folder_is_not_copied_and_its_files_are_recorded(whole_source, tmp_path):
    files, facts = prepare_source({"folder": str(whole_source)}, tmp_path / "toy")
    assert files == ["source.json"]
    assert open_source(tmp_path / "toy").folder.samefile(whole_source)
    weights = (whole_source / "model.safetensors").read_bytes()
    recorded = facts["model_files"]["model.safetensors"]
    assert recorded == {"bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()}


def test_the_matrices_of_a_prepared_source_are_found_without_its_class(
    whole_source, tmp_path, monkeypatch
):
    expected = read_matrices(whole_source)
    assert sorted(expected) == ["input", "output"]
    prepare_source({"folder": str(whole_source)}, tmp_path / "toy")
    monkeypatch.delattr("lexigraft.source.matrices.skeleton")
    prepared = open_source(tmp_path / "toy")
    read = read_matrices(prepared.folder, prepared.matrices)
    for which, matrix in expected.items():
        np.testing.assert_array_equal(read.pop(which), matrix)
    assert not read


def test_tokenizers_are_the_same_where_they_cut_texts_alike(whole_source, tiny_source, tmp_path):
    prepared = {"small": whole_source, "large": tiny_source}
    for name, model in prepared.items():
        prepare_source({"folder": str(model)}, tmp_path / name)
    file = tiny_source / "tokenizer.json"
    content = json.loads(file.read_text())
    content["truncation"] = {"direction": "Right", "max_length": 9, "strategy": "LongestFirst",
                             "stride": 0}  # fmt: skip
    file.write_text(json.dumps(content))
    check_same_tokenizer(tmp_path / "large", tmp_path / "small")
    content["model"]["merges"].reverse()
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match="source large: its tokenizer differs from that of small"):
        check_same_tokenizer(tmp_path / "large", tmp_path / "small")


@pytest.mark.parametrize(("name", "warned"), [("CohereTokenizer", True), ("GPT2Tokenizer", False)])
def test_a_class_that_segments_otherwise_is_named(name, warned, tiny_source, tmp_path, caplog):
    file = tiny_source / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"tokenizer_class": name}))
    prepare_source({"folder": str(tiny_source)}, tmp_path / "toy")
    assert (f"{name}, which AutoTokenizer loads, tokenizes texts" in caplog.text) == warned


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"GGUF", b"GGUF" + bytes(100)])
def test_a_file_that_is_no_whole_gguf_is_reported(content, tmp_path):
    file = tmp_path / "x.gguf"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"x\.gguf: (not a GGUF file|transformers cannot read)"):
        gguf_to_folder(file, tmp_path / "out")


def with_nan(folder, row):
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"][row, 1] = float("nan")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.bad_input(
    "model",
    "NaN or infinity in the row of a token",
    "`prepare_source` names the tensor and the token; padding rows may hold anything",
)
def test_a_token_whose_row_holds_nan_is_named(tiny_source, tmp_path):
    with_nan(tiny_source, 200)
    token = load_tokenizer(tiny_source).convert_ids_to_tokens(200)
    with pytest.raises(UserError) as caught:
        prepare_source({"folder": str(tiny_source)}, tmp_path / "toy")
    assert f"lm_head.weight: the row of {token!r} (id 200) holds NaN" in str(caught.value)
    assert not (tmp_path / "toy" / "source.json").exists()


def test_a_broken_source_leaves_no_source_file(tiny_source, tmp_path):
    (tiny_source / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        prepare_source({"folder": str(tiny_source)}, tmp_path / "toy")
    assert not (tmp_path / "toy" / "source.json").exists()


def test_padding_rows_may_hold_nan(tiny_source, tmp_path):
    with_nan(tiny_source, 290)
    prepare_source({"folder": str(tiny_source)}, tmp_path / "toy")
