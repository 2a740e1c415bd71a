"""A kind of vectors that is added as docs/extend.md says is computed by the real Snakefile."""

import os
import re
import subprocess
import sys

import pytest

from tests.workflow.conftest import REPOSITORY, copy_project

PAGE = REPOSITORY / "docs" / "extend.md"
CODE = """
import lexigraft
from lexigraft.auxiliary.registry import compute_vectors

tokenizer = lexigraft.train_tokenizer(["mto na mvua"] * 5, "byte-level-bpe", size=262)
vectors, _ = compute_vectors("characters", tokenizer, {"dimensions": 128}, {})
print(vectors.vectors[vectors.tokens.tolist().index(tokenizer.convert_tokens_to_ids("m"))].sum())
"""


def blocks() -> dict[str, str]:
    """The code blocks of the section, by the file that the text before each names."""
    section = PAGE.read_text(encoding="utf-8").split("## Vectors of tokens\n")[1].split("\n## ")[0]
    split = re.split(r"```\w+\n(.*?)```", section, flags=re.DOTALL)
    files = [
        re.findall(r"`((?:lexigraft|config)/[\w./]+\.\w+)`", text)[-1] for text in split[:-1:2]
    ]
    return dict(zip(files, split[1::2], strict=True))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory, miniature):
    """A copy of the project with the files of the section, and a study that uses them."""
    copy = copy_project(tmp_path_factory.mktemp("auxiliary") / "project")
    for file, code in blocks().items():
        path = copy.folder / file
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        path.write_text(before + code, encoding="utf-8")
    cells = [{**miniature["cells"][1], "initializers": ["focus-characters"]}]
    copy.config = {**miniature, "cells": [miniature["cells"][0], *cells]}
    copy.change(lambda config: None)
    return copy


def test_the_kind_computes_vectors(checkout):
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=checkout.folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(checkout.folder)}, check=True,
    )  # fmt: skip
    assert done.stdout == "1.0\n"


def test_a_study_computes_the_vectors_before_it_initializes(checkout):
    planned = checkout.planned()
    assert any("focus-characters" in job for job in planned)
    assert any(re.search(r"\bcharacters\b", job) for job in planned)
