"""A tiny source that tests can modify: a byte-level tokenizer and a tiny Llama."""

import shutil

import pytest


@pytest.fixture(scope="session")
def whole_source(tmp_path_factory, tiny_llama):
    """An untied Llama of 300 rows with a trained byte-level tokenizer of 271 tokens."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("whole") / "tiny"
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(["the cat sat on the mat, the dog sat on the cat"] * 9, 271)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer)
    tokenizer.save_pretrained(folder)
    tiny_llama(300, tied=False).save_pretrained(folder)
    return folder


@pytest.fixture
def tiny_source(whole_source, tmp_path):
    """A copy of `whole_source` that a test may break."""
    return shutil.copytree(whole_source, tmp_path / "tiny")
