"""An export needs transformers alone and computes what the cell does."""

import doctest
import json
import math
import runpy
import sys
from pathlib import Path

import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.inference.text_encoding import start_ids
from lexigraft.source.saving import save_model
from lexigraft.training.export import cell_facts, export
from lexigraft.training.store import load_cell
from lexigraft.training.train import train_cell
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.train import train_tokenizer

TOKENS = torch.arange(3, 60)[None]
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "export.py"
STEPS = {"batch_sequences": 4, "epochs": 0.5, "learning_rate": 1e-2}


@pytest.fixture
def cell(train):
    def build(*trainable, tied=True):
        phases = [{"trainable": list(trainable), "length": 32}]
        return train({**STEPS, "phases": phases}, tied=tied)

    return build


@pytest.mark.parametrize("tied", [True, False])
def test_transformers_alone_computes_the_same_logits(cell, tmp_path, tied):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = cell("embeddings", "head", "lora", tied=tied)
    out = export(folder, tmp_path / "out")
    model, tokenizer = load_cell(folder)
    exported, notes = AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
    assert torch.equal(exported(TOKENS).logits, model(TOKENS).logits)
    assert not notes["missing_keys"] and not notes["unexpected_keys"]
    assert exported.config.tie_word_embeddings == tied
    assert exported.config.vocab_size == exported.get_input_embeddings().weight.shape[0] == 320
    text = "one two ένα"
    assert AutoTokenizer.from_pretrained(out)(text)["input_ids"] == tokenizer(text)["input_ids"]
    names = {path.name for path in out.iterdir()}
    assert {"config.json", "generation_config.json", "model.safetensors"} <= names
    assert {"tokenizer.json", "tokenizer_config.json"} <= names
    assert exported.config.use_cache


def test_plain_transformers_measures_the_recorded_bits_per_byte_of_a_qwen2(
    training_setup, without_bos, telugu, tmp_path
):
    """transformers has a pre-tokenizer of its own for Qwen2, which cuts Telugu at its marks."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    tokenizer = expand_tokenizer(without_bos, telugu, new_tokens=20)
    place = training_setup(tokenizer=tokenizer)
    Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=320, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=512,
            eos_token_id=2,
        )
    ).save_pretrained(place.source)  # fmt: skip
    phases = [{"trainable": ["embeddings", "head"], "length": 32}]
    job = place.job({**STEPS, "phases": phases, "curve": {"sentences": 10, "points": 0}})
    train_cell(job)
    card = json.loads((Path(job["outputs"]["folder"]) / "card.json").read_text())
    out = export(job["outputs"]["folder"], tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(out).eval()
    plain, texts = AutoTokenizer.from_pretrained(out), telugu[-10:]
    bits = 0.0
    for text in texts:
        ids = torch.tensor([[*start_ids(tokenizer), *plain(text).input_ids]])
        with torch.no_grad():
            bits += (model(ids, labels=ids).loss * (ids.shape[1] - 1)).item() / math.log(2)
    assert bits / sum(len(text.encode()) for text in texts) == pytest.approx(
        card["heldout_after"], rel=1e-5
    )
    assert max(plain(texts[0]).input_ids) >= len(without_bos)  # new tokens are used


TEMPLATE = (
    "{{ bos_token }}{% for turn in messages %}<|{{ turn.role }}|>{{ turn.content }}</s>{% endfor %}"
    "{% if tools %}<tool_call>{% endif %}<|end|>"
)


def test_a_chat_template_is_exported_and_its_missing_tokens_are_named(
    cell, training_setup, tmp_path, caplog
):
    from transformers import AutoTokenizer

    source = training_setup().source
    (source / "chat_template.jinja").write_text(TEMPLATE)
    folder = cell("embeddings")
    turns = [{"role": "user", "content": "ένα"}]
    before = AutoTokenizer.from_pretrained(source).apply_chat_template(turns)["input_ids"]
    out = export(folder, tmp_path / "out")
    assert AutoTokenizer.from_pretrained(out).apply_chat_template(turns)["input_ids"] == before
    (said,) = {record.message for record in caplog.records if "chat template" in record.message}
    assert said == "The chat template names <|end|>, which the vocabulary does not have."
    card = (out / "README.md").read_text(encoding="utf-8")
    assert said in card and "was tuned for conversations" in card
    assert "Not tuned to follow instructions" not in card


def test_the_card_names_the_data_sets_of_the_hub(cell, training_setup, tmp_path):
    folder = cell("embeddings")
    corpus = training_setup().corpus

    def text_of(place, **text):
        place.mkdir(exist_ok=True)
        job = {"settings": {"text": text} if text else {"group": {"members": ["el", "te"]}}}
        (place / "card.json").write_text(json.dumps({"job": job}))

    def named():
        return cell_facts(folder).data_sets

    text_of(corpus, loader="datasets", name="org/text", split="train")
    assert named() == ["org/text"]
    text_of(corpus, loader="text", paths=["te.txt"])
    assert named() == []
    text_of(corpus.parent / "te", loader="text", paths=["te.txt"])
    # Of a group, its members': here Greek's, by the addresses of its files.
    files = ["hf://datasets/org/greek@1234/el/0.json", "hf://datasets/org/greek@1234/el/1.json"]
    text_of(corpus.parent / "el", loader="datasets", name="json", split="train", data_files=files)
    text_of(corpus)
    assert named() == ["org/greek"]


def test_a_model_that_does_not_fit_on_the_gpu_is_exported_on_the_cpu(cell, tmp_path, monkeypatch):
    def load(folder, device="cpu"):
        if device != "cpu":
            raise torch.OutOfMemoryError
        return load_cell(folder)

    module = sys.modules[export.__module__]  # the package has the function under its name
    monkeypatch.setattr(module, "device", lambda: "cuda")
    monkeypatch.setattr(module, "load_cell", load)
    assert (export(cell("lora"), tmp_path / "out") / "model.safetensors").exists()


def test_the_export_says_for_llama_cpp_that_no_token_is_added(
    tmp_path, tiny_llama, with_bos, lines
):
    from transformers import AutoTokenizer

    plain = train_tokenizer(lines[:300], "sentencepiece-bpe", size=450)
    for name, tokenizer, said in (("plain", plain, False), ("with-bos", with_bos, None)):
        save_model(tiny_llama(len(tokenizer)), tokenizer, tmp_path / name)
        config = json.loads((tmp_path / name / "tokenizer_config.json").read_text("utf-8"))
        assert config.get("add_bos_token") is config.get("add_eos_token") is said
        read = AutoTokenizer.from_pretrained(tmp_path / name)
        assert read(lines)["input_ids"] == tokenizer(lines)["input_ids"]


@pytest.mark.bad_input(
    "command",
    "an output folder that is not empty, or is a file",
    "a one-line error message; existing files are unchanged",
)
def test_only_an_earlier_export_is_replaced(cell, tmp_path):
    folder = cell("embeddings")
    export(folder, tmp_path / "out")
    (tmp_path / "out" / "leftover").touch()
    export(folder, tmp_path / "out")
    assert not (tmp_path / "out" / "leftover").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("dear to me")
    with pytest.raises(UserError, match="mine: contains files that were not written by an export"):
        export(folder, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "dear to me"
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="were not written by an export"):
        export(folder, tmp_path / "file")


def test_the_script_takes_two_folders_or_a_job(cell, tmp_path, monkeypatch):
    folder = cell("embeddings")

    def script(*arguments):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
        runpy.run_path(str(SCRIPT), run_name="__main__")

    script(folder, tmp_path / "by hand")
    job = {
        "rule": "export_cell",
        "settings": {},
        "inputs": {"cell": str(folder)},
        "outputs": {"folder": str(tmp_path / "job")},
    }
    for _ in range(2):  # again: into the folder that holds the first
        script(json.dumps(job))
    one, other = (tmp_path / name / "model.safetensors" for name in ("by hand", "job"))
    assert one.read_bytes() == other.read_bytes()
    assert json.loads((tmp_path / "job" / "job.json").read_text()) == job
    with pytest.raises(SystemExit, match=r"error: .*the cell is not trained yet"):
        script(tmp_path / "nothing", tmp_path / "out")


@pytest.mark.parametrize("function", [load_cell, export])
def test_the_examples_in_docstrings_run(function, cell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = sys.modules[function.__module__]
    result = doctest.testmod(module, extraglobs={"cell": cell("embeddings")})
    assert result.attempted > 3 and result.failed == 0


def test_the_exported_tokenizer_segments_as_the_cell_s_whatever_class_its_source_names(
    cell, training_setup, tmp_path, lines
):
    from transformers import AutoTokenizer

    file = training_setup().source / "tokenizer_config.json"
    config = json.loads(file.read_text()) | {"tokenizer_class": "LlamaTokenizer"}
    file.write_text(json.dumps(config))
    folder = cell("embeddings")
    _, tokenizer = load_cell(folder)
    exported = AutoTokenizer.from_pretrained(export(folder, tmp_path / "out"))
    texts = [*lines, "<s> literal"]
    ids = tokenizer(texts)["input_ids"]
    assert exported(texts)["input_ids"] == ids
    assert exported.batch_decode(ids) == tokenizer.batch_decode(ids)
    assert exported.eos_token_id == tokenizer.eos_token_id


def test_a_sentencepiece_model_is_exported(cell, training_setup, tmp_path):
    (training_setup().source / "tokenizer.model").write_bytes(b"pieces")
    out = export(cell("embeddings"), tmp_path / "out")
    assert (out / "tokenizer.model").read_bytes() == b"pieces"
