"""llama.cpp's own converter reads exported models, and transformers and llama.cpp what it wrote."""

import json
from functools import cache
from itertools import chain

import pytest
import torch

from lexigraft import graft_folder, initializer
from lexigraft.errors import UserError
from lexigraft.inference.generation import continue_greedily
from lexigraft.publishing import published_files
from lexigraft.source.hub import find_tokenizer
from lexigraft.source.tokenizer import load_tokenizer
from lexigraft.training import llama_cpp
from lexigraft.training.export import export
from lexigraft.training.train import train_cell
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.prune import prune_tokenizer
from lexigraft.vocabulary.tokenizer_files import save_tokenizer
from lexigraft.vocabulary.train import train_family
from tests.conftest import package_folder
from tests.training import conftest as training

without_bos, training_setup_in = training.without_bos, training.training_setup_in


@pytest.fixture(scope="module", autouse=True)
def packages(packages_of):
    """The packages of envs/llama-cpp.txt, in a folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llama_cpp, "LLAMA_CPP", packages_of("llama-cpp"))
        yield


@pytest.fixture(scope="module")
def convert(tmp_path_factory):
    """`convert(folder, texts)`: the GGUF file of a model, whose tokens were compared."""

    @cache
    def convert(folder, texts=()):
        file = tmp_path_factory.mktemp("gguf") / "model.gguf"
        llama_cpp.folder_to_gguf(folder, file, load_tokenizer(folder), texts, "f32")
        return file

    return convert


@pytest.fixture(scope="module")
def exports(tmp_path_factory, telugu, greek, english, burmese, tiny_llama, smollm2_tokenizer):
    """`exports(name)`: the folder of a model of a family, expanded or pruned."""
    place = tmp_path_factory.mktemp("exports")
    pieces = train_family([*telugu, *greek, *english], "sentencepiece-bpe", 700)

    def source(family):
        if family == "sentencepiece":
            return pieces
        if family == "byte-level":
            return smollm2_tokenizer, None
        file = "package/models/tokenizer.json"
        folder = package_folder(f"{family}-tokenizer")
        return find_tokenizer({"package": family, "file": file}, folder)[0], None

    def write(family, change, text=()):
        tokenizer, model = source(family)
        folder = place / family
        if not folder.exists():
            tiny_llama(len(tokenizer)).save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            if model:
                (folder / "tokenizer.model").write_bytes(model)
        if change == "pruned":
            target = prune_tokenizer(tokenizer, greek)
        else:
            target = expand_tokenizer(tokenizer, text, 40, marks=change)
        out = place / f"{family}-{change}"
        if not out.exists():
            save_tokenizer(target, place / f"{family}-{change}-tokenizer", folder)
            method = initializer("mean")
            graft_folder(folder, place / f"{family}-{change}-tokenizer", method, out)
        return out

    texts = {"apart": burmese, "joined": burmese, "auto": greek, "pruned": greek}
    return lambda name, change: write(name, change, texts[change])


FAMILIES = [
    ("sentencepiece", "auto"), ("sentencepiece", "pruned"),
    ("byte-level", "auto"), ("byte-level", "apart"), ("llama-3", "apart"),
]  # fmt: skip


@pytest.mark.parametrize(("family", "change"), FAMILIES)
def test_llama_cpp_has_the_same_tokens_on_all_scripts(family, change, exports, convert, lines):
    # The tokenizer of SmolLM2's GGUF file lacks the step that separates numbers such as ½.
    texts = [line for line in lines if "½" not in line or family != "byte-level"]
    convert(exports(family, change), tuple(texts))  # raises an error if a token differs


@pytest.mark.parametrize(
    ("family", "change"),
    [("sentencepiece", "auto"), ("sentencepiece", "pruned"), ("byte-level", "auto")],
)
def test_transformers_reads_the_same_ids_and_nearly_the_same_logits(
    family, change, exports, convert, lines
):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = exports(family, change)
    file = convert(folder)
    exported = AutoTokenizer.from_pretrained(folder)
    read = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    # transformers reads the spaces at the beginning of a text differently from a GGUF file.
    texts = [line for line in lines if not line.startswith(" ") or family != "sentencepiece"]
    ids = exported(texts)["input_ids"]
    assert read(texts)["input_ids"] == ids
    settings = (exported.eos_token_id, exported.chat_template)
    assert (read.eos_token_id, read.chat_template) == settings
    tokens = torch.tensor([[*chain.from_iterable(ids[::300])][:400]])
    models = (
        AutoModelForCausalLM.from_pretrained(folder),
        AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32),
    )
    expected, actual = (model.eval()(tokens).logits for model in models)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("change", ["auto", "pruned"])
def test_llama_cpp_continues_texts_as_transformers_does(change, exports, convert, lines):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = exports("sentencepiece", change)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompts = tokenizer([line for line in lines[::250] if line.strip()])["input_ids"]
    result = llama_cpp.run_llama_cpp(convert(folder), [], prompts, new_tokens=16)
    model = AutoModelForCausalLM.from_pretrained(folder)
    options = {"padding": 0, "stop_tokens": [], "max_new_tokens": 16}
    assert result["continuations"] == continue_greedily(model, prompts, **options).tolist()


def test_joined_marks_are_refused_and_would_have_been_split(exports, convert, monkeypatch):
    folder = exports("byte-level", "joined")
    with pytest.raises(UserError, match=r"joins letters and combining marks.*set marks: apart"):
        convert(folder)
    monkeypatch.setattr(llama_cpp, "joins_marks", lambda _: False)
    with pytest.raises(UserError, match=r"sentences into other tokens, .*its pre-tokenizer is not"):
        convert(folder)


def test_an_export_has_the_file_beside_the_model_and_a_refused_one_writes_nothing(
    training_setup_in, tiny_llama, telugu, tmp_path
):
    tokenizer, pieces = train_family(telugu, "sentencepiece-bpe", 400)
    place = training_setup_in(tmp_path)(tokenizer=tokenizer, rows=len(tokenizer))
    (place.source / "tokenizer.model").write_bytes(pieces)
    job = place.job({"phases": []})
    train_cell(job)
    out = export(job["outputs"]["folder"], tmp_path / "out", gguf=True)
    assert {"model.gguf", "model.safetensors"} <= published_files(out).keys()
    assert "model.gguf" in json.loads((out / "card.json").read_text("utf-8"))["files"]
    (place.source / "tokenizer.model").unlink()
    with pytest.raises(UserError, match=r"from tokenizer\.model, which the source lacks"):
        export(job["outputs"]["folder"], tmp_path / "other", gguf=True)
    assert not (tmp_path / "other").exists()


def test_the_converter_refuses_a_byte_level_tokenizer_that_it_does_not_know(exports, convert):
    with pytest.raises(UserError, match=r"rejects .*pre-tokenizer was not recognized"):
        convert(exports("byte-level", "pruned"))
