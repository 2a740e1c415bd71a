"""Sequences with the tokens of a teacher, and folders of teachers."""

import json
from dataclasses import replace

import numpy as np
import pytest

from lexigraft.inference.text_encoding import encode
from lexigraft.training.data import TrainingSequence, concatenate, pack
from lexigraft.training.teacher import TokenAligner
from lexigraft.vocabulary.expand import expand_tokenizer

MOST = 40  # tokens of a sequence that a teacher reads


@pytest.fixture(scope="session")
def target(without_bos, telugu):
    """The source's vocabulary with 60 new tokens, which are several characters of three bytes."""
    return expand_tokenizer(without_bos, telugu[:60], new_tokens=60)


@pytest.fixture(scope="session")
def sequences(target, without_bos, telugu, english):
    """Blocks of two scripts that begin and end within characters, and a sample."""
    mixed = [text for pair in zip(telugu[:8], english[:8], strict=True) for text in pair]
    blocks = pack(concatenate(encode(target, mixed)), 24)
    tokens = np.array(next(encode(target, [telugu[9]]))[:20], dtype=np.int32)
    aligner = TokenAligner(target, without_bos, MOST)
    made = [*(blocks[index] for index in (0, 1, 3)), TrainingSequence(tokens, np.arange(20) > 8)]
    return [replace(sequence, teacher=aligner.align(sequence)) for sequence in made]


@pytest.fixture
def teacher_folder(tmp_path, tiny_llama, without_bos):
    """`teacher_folder(tokenizer)`: the folder of a source model that holds 512 tokens."""

    def build(tokenizer=without_bos):
        folder = tmp_path / "large"
        tiny_llama(320).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / "source.json").write_text(json.dumps({"kind": "folder", "path": "."}))
        return folder

    return build
