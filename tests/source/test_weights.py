"""Reading safetensors headers, and detecting damaged files."""

import json

import numpy
import pytest
from safetensors.numpy import save_file

from lexigraft.errors import UserError
from lexigraft.source.weights import read_shapes, read_tensor, tensors, weight_files


def write_shards(folder):
    save_file({"a": numpy.ones((2, 3), "float32")}, folder / "x-1.safetensors")
    save_file({"b": numpy.zeros(4, "float32")}, folder / "x-2.safetensors")
    index = {"weight_map": {"a": "x-1.safetensors", "b": "x-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_tensors_of_shards_are_found_with_file_and_shape(tmp_path):
    write_shards(tmp_path)
    assert tensors(tmp_path) == {
        "a": (tmp_path / "x-1.safetensors", (2, 3)),
        "b": (tmp_path / "x-2.safetensors", (4,)),
    }
    assert read_tensor(*[tmp_path / "x-1.safetensors", "a"]).tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.bad_input(
    "model",
    "a shard of weights that is missing or lacks a tensor",
    "a one-line error message names the shard and the tensor",
)
def test_a_shard_without_its_tensor_is_named(tmp_path):
    write_shards(tmp_path)
    save_file({"c": numpy.zeros(4, "float32")}, tmp_path / "x-2.safetensors")
    with pytest.raises(
        UserError, match=r"assigns b to x-2\.safetensors, which does not contain it"
    ):
        tensors(tmp_path)


@pytest.mark.bad_input(
    "hostile",
    "an index of weights that refers to files outside its folder",
    "rejected with a message that names the index",
)
def test_an_index_that_leads_outside_the_folder_is_refused(tmp_path):
    index = {"weight_map": {"a": "../x.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match="names files outside the folder"):
        weight_files(tmp_path)


@pytest.mark.bad_input(
    "hostile", "pickled weights", "never loaded; a one-line error message says how to convert them"
)
def test_pickled_weights_are_refused_with_the_way_to_convert_them(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(UserError, match=r"only pytorch_model\.bin.*save_pretrained"):
        weight_files(tmp_path)


@pytest.mark.bad_input(
    "model",
    "weights that are truncated, too long, or not in safetensors format",
    "a one-line error message names the file",
)
@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b[:60]])
def test_a_file_of_the_wrong_length_is_damaged(change, tmp_path):
    file = tmp_path / "model.safetensors"
    save_file({"a": numpy.ones((20, 3), "float32")}, file)
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(UserError, match="fetch it again"):
        read_shapes(file)


@pytest.mark.bad_input(
    "model",
    "a shard of weights that is missing or lacks a tensor",
    "a one-line error message names the shard and the tensor",
)
def test_a_missing_shard_is_named(tmp_path):
    write_shards(tmp_path)
    (tmp_path / "x-2.safetensors").unlink()
    with pytest.raises(UserError, match=r"names x-2\.safetensors, which is missing"):
        weight_files(tmp_path)


def test_a_folder_without_weights_is_reported(tmp_path):
    with pytest.raises(UserError, match=r"has no model\.safetensors"):
        weight_files(tmp_path)


@pytest.mark.bad_input(
    "model",
    "weights that are truncated, too long, or not in safetensors format",
    "a one-line error message names the file",
)
@pytest.mark.parametrize(
    "content", [b"", b"abc", b"\xff" * 100, b"\x02" + bytes(7) + b"[]", b"version https://git-lfs"]
)
def test_a_file_that_is_no_safetensors_file_is_reported(content, tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    with pytest.raises(UserError, match="not a safetensors file"):
        read_shapes(file)
