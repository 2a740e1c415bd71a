"""BLEU of renamed tokens against hand-worked numbers and against nltk, and what a text keeps."""

import json
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.bleu_score import corpus_bleu
from scipy.sparse import csr_array

from lexigraft.auxiliary.sentence_encoder import SentenceEncoder
from lexigraft.errors import UserError
from lexigraft.evaluation.alignment import (
    alignment,
    bleu,
)
from lexigraft.initialization.recipe import assemble_recipe
from lexigraft.initialization.registry import initializer
from lexigraft.initialization.storage import save_initialization

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "measure_alignment.py"
# Few ids and long texts, so that n-grams of all orders meet.
TEXTS = st.lists(st.integers(0, 3), min_size=4, max_size=12)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5)
# nltk stands for a precision of zero by the smallest float.
NEARLY_ZERO = 1e-4


def test_bleu_of_single_tokens_by_hand():
    # Three of four tokens occur in the reference; as long as it, so no penalty.
    assert bleu([[1, 2, 3, 9]], [[1, 2, 3, 4]], order=1) == pytest.approx(75)
    # Half as long: exp(1 - 4 / 2).
    assert bleu([[1, 2]], [[1, 2, 3, 4]], order=1) == pytest.approx(100 * np.exp(-1))


@given(PAIRS)
@settings(max_examples=60)
@pytest.mark.filterwarnings("ignore:\\nThe hypothesis contains 0 counts")
def test_bleu_is_nltks(pairs):
    outputs, references = zip(*pairs, strict=True)
    for order in (1, 4):
        weights = (1 / order,) * order
        expected = corpus_bleu([[reference] for reference in references], outputs, weights)
        assert bleu(outputs, references, order) == pytest.approx(100 * expected, abs=NEARLY_ZERO)


def test_the_heaviest_source_token_of_each_row():
    rows = csr_array(
        np.array([[0.2, 0.5, 0.3, 0], [0.5, 0, 0.5, 0], [0, 0, 0, 1.0], [-2, 1, 2, 0]])
    )
    recipe = assemble_recipe(rows, np.array([2, -1, -1, -1, -1]), np.arange(3))
    assert recipe.heaviest(np.array([0, 1, 2, 3, 4])).tolist() == [2, 1, 0, 0, 2]
    assert recipe.heaviest(np.array([4, 1])).tolist() == [2, 1]


@pytest.fixture(scope="module")
def source(byte_tokenizer):
    return byte_tokenizer(("t", "h"))


def test_equal_tokenizers_have_a_perfect_alignment(smollm2_cut, english):
    fitted = initializer("mean").fit(smollm2_cut, smollm2_cut)
    metrics = alignment(smollm2_cut, smollm2_cut, fitted.recipe_, english)
    assert metrics == {
        "bleu": pytest.approx(100), "bleu_1": pytest.approx(100),
        "bleu_sentence_mean": pytest.approx(100 * np.mean(
            [len(ids) >= 4 for ids in smollm2_cut(english)["input_ids"]])),
        "vocabulary_coverage": 1, "text_coverage": 1,
    }  # fmt: skip


def test_coverage_counts_the_vocabulary_and_the_text(source, byte_tokenizer):
    target = byte_tokenizer(("t", "h"), ("z", "z"), ("a", "b"))
    recipe = initializer("mean").fit(source, target).recipe_
    lost = target.convert_tokens_to_ids(["zz"])
    # "zzabc" is zz ab c: one token in three has a fallback.
    metrics = alignment(source, target, recipe, ["zzabc"], fallbacks=lost)
    assert metrics["vocabulary_coverage"] == 1 - 1 / len(target)
    assert metrics["text_coverage"] == pytest.approx(2 / 3)


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory, byte_tokenizer):
    """A random encoder of two layers in the layout of a sentence encoder."""
    import torch
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("encoder")
    tokenizer = byte_tokenizer()
    torch.manual_seed(0)
    BertModel(
        BertConfig(
            vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=32,
        )
    ).save_pretrained(folder)  # fmt: skip
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, pad_token="<end>"
    ).save_pretrained(folder)
    return folder


def test_the_vector_of_a_text_is_the_mean_over_its_tokens(encoder_folder, byte_tokenizer):
    import torch
    from transformers import BertModel

    texts = ["a", "a longer text than the first", ""]
    vectors = SentenceEncoder({"folder": str(encoder_folder)}).vectors(texts)
    model = BertModel.from_pretrained(encoder_folder)
    for text, vector in zip(texts, vectors, strict=True):
        ids = byte_tokenizer()(text or " ", return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            mean = model.eval()(ids).last_hidden_state[0].mean(dim=0)
        np.testing.assert_allclose(vector, mean / mean.norm(), atol=1e-5)


def test_equal_texts_have_similarity_one(encoder_folder, source, byte_tokenizer):
    encoder = SentenceEncoder({"folder": str(encoder_folder)})
    target = byte_tokenizer(("t", "h"), ("z", "z"))
    recipe = initializer("mean").fit(source, target).recipe_
    kept = alignment(source, target, recipe, ["that", "there"], encoder=encoder)
    lost = alignment(source, target, recipe, ["zzzz zz z", "zzzzzzzz"], encoder=encoder)
    assert kept["semantic_similarity"] == pytest.approx(1)
    assert lost["semantic_similarity"] < 0.999


def test_a_folder_without_an_encoder_is_the_users_error(tmp_path):
    with pytest.raises(UserError, match=r"alignment\.encoder: .* cannot be loaded"):
        SentenceEncoder({"folder": str(tmp_path)}, "alignment.encoder")


@pytest.fixture
def job(tmp_path, make_job, byte_tokenizer):
    """A job of the rule, for a source whose folder holds no model: none is needed."""
    target = byte_tokenizer(("z", "z"), ("Î", "±"))
    for folder, tokenizer in (("model", byte_tokenizer()), ("vocabulary", target)):
        tokenizer.save_pretrained(tmp_path / folder)
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "source").mkdir()
    described = {"kind": "folder", "path": str(tmp_path / "model")}
    (tmp_path / "source" / "source.json").write_text(json.dumps(described))
    fitted = initializer("align").fit(byte_tokenizer(), target, corpus=["α"])
    save_initialization(fitted, tmp_path / "fitted")
    (tmp_path / "fitted" / "fallbacks.json").write_text(json.dumps(fitted.fallbacks_))
    folder = tmp_path / "alignment"
    folder.mkdir()
    return {
        "settings": {"sentences": 2, "encoder": None},
        "inputs": {
            "source": str(tmp_path / "source"),
            "tokenizer": str(tmp_path / "vocabulary"),
            "initialization": str(tmp_path / "fitted"),
            "corpus": make_job("perplexity")["inputs"]["corpus"],
            "encoder": None,
        },
        "outputs": {"folder": str(folder)},
        "cell": {"source": "tiny", "language": "el", "vocabulary": "v", "initializer": "align",
                 "fit": "all-seeds"},
        "seed": [0, "evaluation", "el", "alignment"],
    }  # fmt: skip


def record_of(job):
    run_path(str(SCRIPT))["stage"](job)
    return json.loads(Path(job["outputs"]["folder"], "record.json").read_text("utf-8"))


def test_the_script_writes_the_record_of_a_stored_recipe(job, encoder_folder):
    job["inputs"]["encoder"] = {"folder": str(encoder_folder)}
    record = record_of(job)
    assert (record["initializer"], record["fit"]) == ("align", "all-seeds")
    assert 0 < record["metrics"]["bleu_1"] < 100
    # The corpus never shows "zz".
    assert record["metrics"]["vocabulary_coverage"] == 1 - 1 / 259
    assert 0 < record["metrics"]["semantic_similarity"] < 1
    assert record["details"]["sentences"] == 2
    assert record["details"]["encoder"]["name"] == str(encoder_folder)


def test_counts_are_clipped_and_pooled_over_texts():
    # One of four ones counts; of the second text all four: 5 of 8.
    assert bleu([[1, 1, 1, 1], [5, 6, 7, 8]], [[1, 2, 3, 4], [5, 6, 7, 8]], 1) == pytest.approx(
        62.5
    )
