"""Names become file names and paths may contain anything: both work, or a config is refused."""

import json
import os
import random
import string
import unicodedata
from pathlib import Path

import pytest

from lexigraft.artifacts.cards import COMPLETED
from lexigraft.artifacts.completion import card_of
from tests.workflow.conftest import refused
from tests.workflow.plan import Plan
from workflow.config.registries import REGISTRIES, resolve

LONGEST = 100
MOST_BYTES = 255  # of a file name, on all common file systems
ATOMIC = len(".partial--12345678")


@pytest.fixture
def named(miniature):
    """Makes the miniature study, with entries of its own on all axes, and one name replaced."""

    def build(old="", new=""):
        config = miniature | {
            "vocabularies": {"my-vocabulary": {"base": "expand-50"}},
            "initializers": {"my-initializer": {"base": "align"}},
            "auxiliary": {"my-vectors": {"base": "fasttext"}},
            "tokenizers": {"my-tokenizer": {"hub": "gpt2"}},
            "metrics": {"my-metric": {"base": "comet-22"}},
            "report": {"fonts": None, "items": [{"item": "results", "name": "my-results"}]},
        }
        samples = {"my-samples": {"kind": "parallel", "text": {"loader": "tsv", "path": "x.tsv"}}}
        config["languages"]["telugu"] |= {"samples": samples}
        block = {"sources": ["tiny"], "languages": ["telugu"], "vocabularies": ["my-vocabulary"]}
        block |= {"initializers": ["my-initializer"], "strategies": ["short"]}
        config["cells"] = [block]
        text = json.dumps(config)
        return json.loads(text.replace(f'"{old}"', f'"{new}"') if old else text)

    return build


NAMES = ["miniature", "tiny", "telugu", "my-vocabulary", "my-initializer", "short", "my-vectors",
         "translation-short", "my-tokenizer", "my-metric", "my-results", "my-samples"]  # fmt: skip


@pytest.mark.bad_input(
    "config",
    "names that are too long for a file name, or differ only in case",
    "rejected with a message that names the key",
)
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_too_long_for_file_names_is_refused(name, named, registries):
    resolve(named(name, "x" * LONGEST), registries)
    assert "x" * 50 in refused(named(name, "x" * (LONGEST + 1)), registries)


def test_every_file_name_of_the_longest_names_fits(named, registries):
    config = named()
    for number, name in enumerate(NAMES):
        # Snakemake refuses wildcards that end in twenty repetitions of the same characters.
        long = (str(number) + string.ascii_lowercase * LONGEST)[:LONGEST]
        config = json.loads(json.dumps(config).replace(f'"{name}"', f'"{long}"'))
    study = Plan(config)
    jobs = study.jobs()
    assert len(jobs) > 8
    for job in jobs.values():
        card = card_of(study.described(job.rule, job.wildcards))
        record = COMPLETED.format(card.stem.removeprefix("card"))
        for part in (*card.parts, record, *Path(job.log).parts):
            assert len(part.encode()) + ATOMIC <= MOST_BYTES


@pytest.mark.bad_input(
    "config",
    "names that are too long for a file name, or differ only in case",
    "rejected with a message that names the key",
)
@pytest.mark.parametrize("kind", REGISTRIES)
def test_names_of_a_registry_that_differ_in_case_alone_are_refused(kind, miniature, registries):
    name = next(name for name in registries[kind] if name.swapcase() != name)
    config = miniature | {kind: {**miniature.get(kind, {}), name.swapcase(): {"base": name}}}
    assert f"{kind}: '{name}' and '{name.swapcase()}' differ only in case" in refused(
        config, registries
    )


def characters():
    """Every ASCII character, and one of each other category of Unicode."""
    others = {unicodedata.category(chr(code)): chr(code) for code in range(128, 0x11000)}
    return [chr(code) for code in range(128)] + list(others.values())


@pytest.mark.bad_input(
    "text",
    "a path with braces, quotes, line feeds or any other character",
    "it is read; a path that no file system has is rejected with a message that names the key",
)
def test_snakemake_runs_a_job_on_a_path_with_all_odd_characters(checkout):
    config = checkout.config
    draw = random.Random(1)
    odd = [one for one in characters() if not one.isalnum() and one not in "/\0" and one < "\ud800"]
    draw.shuffle(odd)
    name = "{a}" + "".join(odd) + "{te,x}.txt"
    assert len(os.fsencode(name)) <= MOST_BYTES
    for entry in config["languages"].values():
        (file,) = entry["text"]["paths"]
        (checkout.folder / name).write_bytes(Path(file).read_bytes())
        entry["text"]["paths"] = [name]
    config["languages"].pop("greek")
    config["cells"].pop()
    checkout.config = config
    card = "results/corpus/telugu/card.json"
    ran = checkout.snakemake(card)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (checkout.folder / card).is_file()
    assert checkout.planned(card) == set()
    with (checkout.folder / name).open("a") as file:
        file.write("another line of the text\n")
    assert checkout.planned(card) == {"Preparing the texts of telugu"}


@pytest.mark.bad_input(
    "text",
    "a path with braces, quotes, line feeds or any other character",
    "it is read; a path that no file system has is rejected with a message that names the key",
)
def test_paths_that_no_file_system_has_are_refused(named, registries):
    for path in ("", "x" * 256, "ä" * 128, "a/" * 2001):
        config = named()
        config["languages"]["telugu"]["text"]["paths"] = [path]
        assert refused(config, registries).startswith("languages.telugu.text.paths[0]")
