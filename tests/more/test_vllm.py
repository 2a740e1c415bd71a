"""The real vLLM continues and tokenizes texts of exported models as transformers does.

On CPUs: envs/vllm.txt has the same version, built for them.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from lexigraft import graft_folder, initializer
from lexigraft.inference.generation import decode, generate
from lexigraft.source.model import load_model
from lexigraft.source.tokenizer import load_tokenizer
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.tokenizer_files import save_tokenizer
from lexigraft.vocabulary.train import train_family
from tests.conftest import REPOSITORY
from tests.evaluation.conftest import cell, cell_job, make_job  # noqa: F401 (fixtures)

NEW_TOKENS = 24
FOLDERS = ["byte-level", "sentencepiece"]
STOPS = ["line feed", "across tokens", "none"]


@pytest.fixture(scope="module")
def run_with_vllm(packages_of, tmp_path_factory):
    """`run_with_vllm(script, *arguments)`: the number of its group of processes, once it ended."""
    if torch.version.cuda:
        pytest.skip("torch is built for GPUs, and the vLLM of envs/vllm.txt for its CPU build")
    home = tmp_path_factory.mktemp("home")
    settings = {
        "PYTHONPATH": f"{packages_of('vllm')}:{REPOSITORY}",
        "VLLM_CACHE_ROOT": f"{home}/cache",
        "VLLM_CONFIG_ROOT": f"{home}/config",
        "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; by default, nine tenths of the memory
        "VLLM_CPU_CI_ENV": "1",  # compiles nothing
        "LEXIGRAFT_PRECISION": "float32",
    }

    def run(script, *arguments):
        process = subprocess.Popen(
            [sys.executable, script, *arguments], env={**os.environ, **settings}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        printed, _ = process.communicate()
        assert process.returncode == 0, printed
        return process.pid

    return run


@pytest.fixture(scope="module")
def exports(tmp_path_factory, smollm2_cut, telugu, greek, english, burmese):
    """Name -> folder of a random model with new tokens, whose greedy texts vary."""
    place = tmp_path_factory.mktemp("exports")
    pieces, file = train_family([*telugu, *greek, *english], "sentencepiece-bpe", 700)
    for name, tokenizer, new in (
        ("byte-level", smollm2_cut, greek),
        ("sentencepiece", pieces, burmese),
    ):
        source = place / f"{name}-source"
        random_llama(len(tokenizer)).save_pretrained(source)
        tokenizer.save_pretrained(source)
        if name == "sentencepiece":
            (source / "tokenizer.model").write_bytes(file)
        target = place / f"{name}-tokenizer"
        save_tokenizer(expand_tokenizer(tokenizer, new, 40), target, source)
        graft_folder(source, target, initializer("mean"), place / name)
    return {name: place / name for name in FOLDERS}


def random_llama(rows: int):
    """A model of a head size that vLLM knows, with large weights: attention must matter."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=rows, hidden_size=64, intermediate_size=96, num_hidden_layers=3,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=512,
        tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(8)
    return model


@pytest.fixture(scope="module")
def prompts(lines):
    """Prompts in all scripts, of different lengths."""
    return {f"p{at}": line for at, line in enumerate(lines[::150]) if line.strip()}


@pytest.fixture(scope="module")
def job(exports, prompts, lines, tmp_path_factory):
    """The stop strings and the end of each folder are among what its model writes."""
    stops = {}
    for name, folder in exports.items():
        free = written(folder, prompts, [], tmp_path_factory.mktemp("free")).values()
        settings = json.loads((folder / "generation_config.json").read_text())
        settings["eos_token_id"] = [2, max(free, key=lambda one: len(one.tokens)).tokens[9]]
        (folder / "generation_config.json").write_text(json.dumps(settings))
        stops[name] = {
            "line feed": ["\n"],
            "across tokens": across_tokens(load_tokenizer(folder), free),
            "none": [],
        }
    folders = {name: str(folder) for name, folder in exports.items()}
    return {
        "folders": folders, "prompts": prompts, "stops": stops, "texts": lines,
        "max_new_tokens": NEW_TOKENS,
    }  # fmt: skip


def across_tokens(tokenizer, outputs) -> list[str]:
    """Two strings: the last character of a token with the first of the next one."""
    found = []
    for ids in (output.tokens for output in outputs):
        texts = decode(tokenizer, [ids[:end] for end in range(4, len(ids) + 1)])
        pairs = [
            longer[len(text) - 1 : len(text) + 1]
            for text, longer in pairwise(texts)
            if text and longer.startswith(text)
        ]
        found += [pair for pair in pairs if len(pair) == 2 and "\ufffd" not in pair][:1]
    return found[:2]


def written(folder, prompts, stop, place):
    """What transformers writes."""
    model, tokenizer = load_model(folder, torch.float32), load_tokenizer(folder)
    options = {"max_new_tokens": NEW_TOKENS}
    return generate(model, tokenizer, prompts, stop=stop, **options)


@pytest.fixture(scope="module")
def by_vllm(job, run_with_vllm, tmp_path_factory):
    place = tmp_path_factory.mktemp("vllm")
    (place / "job.json").write_text(json.dumps(job))
    run_with_vllm(REPOSITORY / "tests/more/vllm_texts.py", place / "job.json", place / "out.json")
    return json.loads((place / "out.json").read_text("utf-8"))


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("name", FOLDERS)
def test_texts_are_those_of_transformers(name, stop, by_vllm, job, prompts, tmp_path):
    strings = job["stops"][name][stop]
    expected = written(job["folders"][name], prompts, strings, tmp_path)
    assert by_vllm[name]["outputs"][stop] == {key: asdict(one) for key, one in expected.items()}
    finished = [one for one in expected.values() if one.finished]
    assert 0 < len(finished) < len(expected)
    assert any(one.text for one in expected.values())


@pytest.mark.parametrize("name", FOLDERS)
def test_tokens_are_those_of_training_in_all_scripts(name, by_vllm, job, lines):
    tokenizer = load_tokenizer(job["folders"][name])
    assert by_vllm[name]["tokens"] == tokenizer(lines)["input_ids"]


def test_no_process_is_left_of_a_model_that_is_closed(by_vllm):
    assert [found["processes"] for found in by_vllm.values()] == [0, 0]


@pytest.fixture(scope="module")
def smollm2_folder_tiny(tmp_path_factory, smollm2_cut):
    """The source of `cell`, with a head size that vLLM knows."""
    folder = tmp_path_factory.mktemp("source") / "tiny"
    random_llama(len(smollm2_cut)).save_pretrained(folder)
    smollm2_cut.save_pretrained(folder)
    return folder


def test_a_cell_is_evaluated_by_either_engine(cell_job, run_with_vllm):  # noqa: F811
    job = cell_job(translation={"max_new_tokens": 8, "samples": 3})
    found = {}
    for engine in ("transformers", "vllm"):
        job["tasks"]["translation"]["settings"]["engine"] = engine
        group = run_with_vllm(REPOSITORY / "scripts/evaluate.py", json.dumps(job))
        folder = Path(job["outputs"]["folder"])
        run = folder / "translation" / "run-0"
        details = json.loads((run / "record.json").read_text())["details"]
        assert details["engine"] == {"vllm": "vllm 0.30.0"}.get(engine, engine)
        assert details["device"] == "cpu"
        rows = [json.loads(row) for row in (run / "predictions.jsonl").read_text().splitlines()]
        found[engine] = [row["output"] for row in rows]
        assert not (folder / "exported").exists()
    assert found["vllm"] == found["transformers"]
    assert any(found["vllm"])
    assert ends(group)


def ends(group: int, seconds: int = 60) -> bool:
    """Whether no process of a group is left after so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False
