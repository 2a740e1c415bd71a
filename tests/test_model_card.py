"""What the README.md of an adapted model tells, and where it has it from."""

import re

import pytest
import yaml
from huggingface_hub import ModelInfo

from lexigraft.initialization.registry import methods
from lexigraft.model_card import (
    ModelFacts,
    describe_strategy,
    license_of,
    method_references,
    model_card,
    strategy_references,
)
from lexigraft.training.settings import read_strategy


def front_matter(text):
    return yaml.safe_load(text.split("---")[1])


def test_the_front_matter_is_what_the_hub_reads(byte_tokenizer):
    facts = ModelFacts("org/name", language="Telugu", code="te", license="apache-2.0")
    assert front_matter(model_card(facts, byte_tokenizer(), masked=False)) == {
        "base_model": "org/name",
        "base_model_relation": "finetune",
        "language": ["te"],
        "library_name": "transformers",
        "license": "apache-2.0",
        "pipeline_tag": "text-generation",
        "tags": ["lexigraft", "vocabulary-adaptation"],
    }


def test_a_card_names_the_token_that_texts_begin_with(byte_tokenizer, roberta_tokenizer):
    without = model_card(ModelFacts("a"), byte_tokenizer(), masked=False)
    assert "Begin every text with `<end>`" in without
    assert 'tokenizer("<end>" + text' in without
    numbers = {"Bits per byte": {"source": "2.1", "this": "1.9"}, "English": {"this": "1.0"}}
    adds_its_own = model_card(ModelFacts("a", numbers=numbers), roberta_tokenizer, masked=False)
    assert "| English | – | 1.0 |" in adds_its_own
    assert "Begin every text" not in adds_its_own
    assert "tokenizer(text" in adds_its_own


def test_the_use_of_a_chat_model_names_its_template(byte_tokenizer):
    tokenizer = byte_tokenizer()
    plain = model_card(ModelFacts("a"), tokenizer, masked=False)
    tokenizer.chat_template = "{{ messages }}"
    assert "apply_chat_template" not in plain
    assert "apply_chat_template" in model_card(ModelFacts("a"), tokenizer, masked=False)


def test_an_unknown_licence_is_that_of_the_hub(tmp_path, monkeypatch):
    infos = {
        "org/a": ModelInfo(id="org/a", cardData={"license": "mit"}),
        "org/b": ModelInfo(id="b"),
    }
    monkeypatch.setattr("lexigraft.model_card.model_info", lambda name, timeout: infos[name])
    assert [license_of(tmp_path, name) for name in ("org/a", "org/b", "org/c")] == ["mit", "", ""]
    (tmp_path / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    assert license_of(tmp_path, "org/a") == "apache-2.0"


@pytest.mark.parametrize("method", methods())
def test_papers_of_methods_are_cited_by_author_and_title(method):
    for paper in method_references(method):
        assert re.fullmatch(r'[A-Z][^"]+, "[^"]+"[^"]*\.', paper), paper
    assert method_references(method)


def test_strategies_cite_what_they_train():
    def cited(**phase):
        return " ".join(strategy_references({"phases": [{"length": 512, **phase}]}))

    assert "LoRA" in cited(trainable=["embeddings", "lora"])
    assert "0.01GB" in cited(trainable=["embeddings", {"layers": [0, 1]}])
    assert "0.01GB" in cited(trainable=["embeddings"], objective="mtp")
    assert "VocADT" in cited(trainable=["adapter"])
    assert not cited(trainable=["all"])


def test_the_learning_rates_of_each_phase_are_described():
    first = {"trainable": ["head"], "length": 64, "share": 0.5, "learning_rate": 1e-3}
    strategy = {
        "phases": [first, {"trainable": ["lora"], "length": 32, "share": 0.5}],
        "embedding_learning_rate": 0.2,
    }
    counts = {"tokens": 9, "steps": 3, "trained_parameters": 7, "total_parameters": 8}
    text = describe_strategy(read_strategy(strategy).model_dump(mode="json"), counts)
    assert "head (clm, sequences of 64 tokens, AdamW with learning rate 0.001, of embeddings and " \
        "head 0.0002); then lora (clm, sequences of 32 tokens, AdamW with learning rate 0.0001)" \
        in text  # fmt: skip


def test_the_licence_is_that_of_the_readme_beside_a_model(tmp_path):
    assert license_of(tmp_path) == ""
    (tmp_path / "README.md").write_text("# No front matter")
    assert license_of(tmp_path) == ""
    (tmp_path / "README.md").write_text("---\nlicense: [mit]\n---\n")
    assert license_of(tmp_path) == ""
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n# Model\n")
    assert license_of(tmp_path) == "mit"
    (tmp_path / "README.md").write_text("---\nbase_model: a/b---c\nlicense: mit\n---\n# ---\n")
    assert license_of(tmp_path) == "mit"
