import json
import math
from pathlib import Path

import pytest
import torch

from lexigraft.corpus.lines import corpus_sentences
from lexigraft.errors import UserError
from lexigraft.evaluation.tasks.perplexity import evaluate
from lexigraft.inference.likelihood import score_windows
from lexigraft.vocabulary.bpe import read_bpe
from lexigraft.vocabulary.tokenizer_settings import fast_tokenizer, settings_of


@pytest.fixture
def uniform(model):
    """All weights zero: every token is equally likely."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model


def test_a_uniform_model_needs_log2_of_the_vocabulary_for_each_token(
    uniform, byte_tokenizer, make_job
):
    job = make_job("perplexity")
    metrics = evaluate(uniform, byte_tokenizer(), job).metrics
    text = (Path(job["inputs"]["corpus"]) / "heldout.txt").read_text("utf-8").replace("\n", "")
    bytes_ = len(text.encode())
    assert metrics["bytes"] == metrics["tokens"] == bytes_  # no merges: a token is a byte
    assert metrics["bits_per_byte"] == pytest.approx(math.log2(257))
    assert metrics["perplexity"] == pytest.approx(257, rel=1e-5)
    assert metrics["english_bits_per_byte"] == pytest.approx(math.log2(257))


def test_text_that_the_tokenizer_loses_is_recorded(model, byte_tokenizer, make_job, caplog):
    bpe = read_bpe(byte_tokenizer())
    lossy = fast_tokenizer(bpe.without({"Î"}), settings_of(byte_tokenizer()))
    job = make_job("perplexity")
    details = evaluate(model, lossy, job).details
    text = (Path(job["inputs"]["corpus"]) / "heldout.txt").read_text("utf-8").replace("\n", "")
    lost = text.encode().count(0xCE)
    assert details["heldout"]["lost_text"] == pytest.approx(lost / len(text.encode()))
    assert "no tokens for" in caplog.text and "of heldout.txt" in caplog.text
    assert "lost_text" not in evaluate(model, byte_tokenizer(), job).details["heldout"]


def test_the_nats_are_those_of_one_text_after_another(model, byte_tokenizer, make_job):
    tokenizer = byte_tokenizer()
    job = make_job("perplexity")
    metrics = evaluate(model, tokenizer, job).metrics
    nats = 0.0
    for line in (Path(job["inputs"]["corpus"]) / "heldout.txt").read_text("utf-8").splitlines():
        ids = torch.tensor([[0, *tokenizer(line)["input_ids"]]])
        with torch.no_grad():
            logits = model(ids).logits[0, :-1].double()
        nats += torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum").item()
    assert metrics["nats_per_token"] * metrics["tokens"] == pytest.approx(nats, rel=1e-5)


def test_the_first_run_scores_the_sentences_of_learning_curves(model, byte_tokenizer, make_job):
    def scored(run):
        job = make_job("perplexity", run=run, heldout_sentences=30, english_sentences=1)
        corpus = Path(job["inputs"]["corpus"])
        (corpus / "heldout.txt").write_text("".join(f"sentence {at}\n" for at in range(60)))
        evaluate(model, byte_tokenizer(), job)
        rows = Path(job["outputs"]["predictions"]).read_text("utf-8").splitlines()
        found = [json.loads(row)["id"] for row in rows if "heldout" in row]
        lines = (corpus / "heldout.txt").read_text().splitlines()
        return [lines[int(name.rsplit("-", 1)[1])] for name in found], corpus

    first, corpus = scored(0)
    assert first == corpus_sentences(corpus, "heldout", 30)
    second, third = scored(1)[0], scored(2)[0]
    assert len({*first}) == len({*second}) == len({*third}) == 30
    assert len({tuple(sorted(one)) for one in (first, second, third)}) == 3


def test_the_error_about_a_diverged_model_names_its_cell(model, byte_tokenizer, make_job):
    with torch.no_grad():
        model.get_input_embeddings().weight.fill_(math.nan)
    with pytest.raises(UserError, match=r"cell: the likelihood of heldout.txt"):
        evaluate(model, byte_tokenizer(), make_job("perplexity"))


def test_a_group_is_scored_by_member_and_together(model, byte_tokenizer, make_job):
    job = make_job("perplexity")
    corpus, texts = Path(job["inputs"]["corpus"]), {"el": "ναι\nένα\n", "sw": "ndiyo\nmoja\n"}
    for member, text in texts.items():
        (corpus / "members" / member).mkdir(parents=True)
        (corpus / "members" / member / "heldout.txt").write_text(text, "utf-8")
    found = evaluate(model, byte_tokenizer(), job)
    metrics, alone = found.metrics, {}
    for member, text in texts.items():
        (corpus / "heldout.txt").write_text(text, "utf-8")
        one = make_job("perplexity")
        folder = corpus / "members"
        folder.rename(corpus / "aside")
        alone[member] = evaluate(model, byte_tokenizer(), one).metrics
        (corpus / "aside").rename(folder)
    for member, expected in alone.items():
        for name in ("bits_per_byte", "perplexity", "tokens"):
            assert metrics[f"{name}_{member}"] == pytest.approx(expected[name], rel=1e-6)
    nats = sum(one["nats_per_token"] * one["tokens"] for one in alone.values())
    bytes_ = sum(len(text.replace("\n", "").encode()) for text in texts.values())
    assert metrics["bits_per_byte"] == pytest.approx(nats / math.log(2) / bytes_, rel=1e-6)
    assert found.details["members/sw/heldout"]["sentences"] == 2


TEXTS = ["Καλημέρα κόσμε", "ένα δύο", "ναι", "x", "good morning, world"]


def brute_force(model, tokenizer, texts, window, score_start=False):
    """Each token from what precedes it in its window, one forward pass a token."""
    stream, scored = [], []
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        stream += [0, *ids]
        scored += [score_start and len(scored) > 0] + [True] * len(ids)
    nats = 0.0
    for at in range(1, len(stream)):
        if scored[at]:
            begin = (at - 1) // (window - 1) * (window - 1)
            with torch.no_grad():
                logits = model(torch.tensor([stream[begin:at]])).logits[0, -1].double()
            nats -= torch.log_softmax(logits, dim=-1)[stream[at]].item()
    return nats, sum(scored)


@pytest.mark.parametrize("window", [2, 7, 1000])
@pytest.mark.parametrize("batch_tokens", [1, 50])
def test_every_token_is_predicted_once_from_its_window(window, batch_tokens, model, byte_tokenizer):
    tokenizer = byte_tokenizer()
    score = score_windows(model, tokenizer, TEXTS, window=window, batch_tokens=batch_tokens)
    nats, tokens = brute_force(model, tokenizer, TEXTS, window)
    assert score.tokens == tokens == sum(len(text.encode()) for text in TEXTS)
    assert score.bytes == tokens
    assert score.nats == pytest.approx(nats, rel=1e-5)
    assert score.perplexity == pytest.approx(math.exp(nats / tokens), rel=1e-4)
    options = {"window": window, "batch_tokens": batch_tokens, "score_start": True}
    with_starts = score_windows(model, tokenizer, TEXTS, **options)
    nats, tokens = brute_force(model, tokenizer, TEXTS, window, score_start=True)
    assert with_starts.tokens == tokens == score.tokens + len(TEXTS) - 1
    assert with_starts.nats == pytest.approx(nats, rel=1e-5)


def test_the_start_of_a_separate_text_cannot_be_scored(model, byte_tokenizer, make_job):
    with pytest.raises(UserError, match="score_start: needs a window"):
        evaluate(model, byte_tokenizer(), make_job("perplexity", score_start=True))


@pytest.mark.parametrize("window", [2, 7])
def test_each_text_has_the_nats_of_its_own_tokens(window, model, byte_tokenizer):
    tokenizer = byte_tokenizer()
    score = score_windows(model, tokenizer, TEXTS, window=window, batch_tokens=50)
    before = 0.0
    for number, own in enumerate(score.texts, 1):
        # A text's own tokens are what it adds to those of the texts before it.
        nats, _ = brute_force(model, tokenizer, TEXTS[:number], window)
        assert own.nats == pytest.approx(nats - before, rel=1e-4)
        assert own.tokens == own.bytes == len(TEXTS[number - 1].encode())
        before = nats


def test_bits_per_byte_follow_the_tokens_of_the_vocabulary(
    tiny_llama, uniform, byte_tokenizer, make_job
):
    merged = byte_tokenizer(("Î", "µ"), ("Î", "½"))
    larger = tiny_llama(len(merged))
    with torch.no_grad():
        for parameter in larger.parameters():
            parameter.zero_()
    metrics = evaluate(larger, merged, make_job("perplexity")).metrics
    assert metrics["tokens"] < metrics["bytes"]
    expected = math.log2(259) * metrics["tokens"] / metrics["bytes"]
    assert metrics["bits_per_byte"] == pytest.approx(expected, rel=1e-5)
    # The source's tokens are bytes: its perplexity is that of a byte, whatever the vocabulary.
    assert metrics["source_perplexity"] == pytest.approx(2**expected, rel=1e-5)
    assert metrics["source_perplexity"] < metrics["perplexity"]


@pytest.mark.parametrize("window", [None, 8])
def test_figures_are_those_of_the_sentences_on_disk(model, byte_tokenizer, make_job, window):
    job = make_job("perplexity", window=window, heldout_sentences=2)
    metrics = evaluate(model, byte_tokenizer(), job).metrics
    lines = Path(job["outputs"]["predictions"]).read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["test"] for row in rows] == ["heldout"] * 2 + ["english"] * 2
    for test, prefix in (("heldout", ""), ("english", "english_")):
        own = [row for row in rows if row["test"] == test]
        lines = (Path(job["inputs"]["corpus"]) / f"{test}.txt").read_text("utf-8").splitlines()
        for row in own:
            assert row["bytes"] == len(lines[int(row["id"].rsplit("-", 1)[1])].encode())
        bits = sum(row["nats"] for row in own) / math.log(2) / sum(row["bytes"] for row in own)
        assert metrics[f"{prefix}bits_per_byte"] == pytest.approx(bits, rel=1e-12)
        assert metrics[f"{prefix}tokens"] == sum(row["tokens"] for row in own)
