"""`lexigraft adapt` with a small model and generated sentences, to a model and its report."""

import json
import math
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from lexigraft.commands.app import app
from lexigraft.errors import UserError
from tests import preloaded_python
from workflow.adaptation import run
from workflow.adaptation.choices import NewTokens, choose_new_tokens, modelled_speed, plan_budget
from workflow.adaptation.outcome import Scores, conclusion
from workflow.adaptation.request import source_entry
from workflow.adaptation.text import LEAST_SENTENCES, language_of, look_at, warnings

REPOSITORY = Path(__file__).resolve().parents[2]
SENTENCES = 300


def generated(letters: str, sentences: int = SENTENCES) -> list[str]:
    """Sentences of words that repeat, in the letters of a script."""
    rng = random.Random(0)
    words = ["".join(rng.choices(letters, k=rng.randint(3, 8))) for _ in range(120)]
    return [" ".join(rng.choices(words, k=rng.randint(5, 11))) for _ in range(sentences)]


@pytest.fixture(scope="module")
def files(tmp_path_factory, english):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "el.txt").write_text("\n".join(generated("αβγδεηικλμνοπρσ")), encoding="utf-8")
    (folder / "en.txt").write_text("\n".join(english[:20]), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def preloaded():
    """Snakemake and its jobs run in the preloaded Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", preloaded_python.python())
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        yield


def adapt(files, model, out, *options):
    """The result of the command; a UserError is raised as it is."""
    given = [
        "adapt", "--model", model, "--text", files / "el.txt", "--english", files / "en.txt",
        "--tokens", 3000, "--new-tokens", 60, "--cores", 2, "--out", out, *options,
    ]  # fmt: skip
    result = CliRunner().invoke(app, [str(one) for one in given])
    if isinstance(result.exception, UserError):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def adapted(tmp_path_factory, files, smollm2_folder_tiny, preloaded):
    """The folder of an adaptation, and what it printed."""
    out = tmp_path_factory.mktemp("adapted") / "out"
    result = adapt(files, smollm2_folder_tiny, out)
    assert result.exit_code == 0, result.output + (out / "snakemake.log").read_text()
    return out, result.output


# ---- the whole of it ---------------------------------------------------------------------------


def test_the_model_gives_the_recorded_bits_per_byte_with_transformers_alone(adapted):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    out, _ = adapted
    [file] = out.glob("results/evaluation/*/my-el/expand-60/*/*/*/perplexity/run-0/record.json")
    tokenizer = AutoTokenizer.from_pretrained(out / "model")
    model = AutoModelForCausalLM.from_pretrained(out / "model").eval()
    nats = size = 0.0
    for text in (out / "results/corpus/my-el/heldout.txt").read_text("utf-8").split("\n")[:-1]:
        # As the model card says.
        ids = tokenizer(tokenizer.eos_token + text, return_tensors="pt").input_ids
        with torch.no_grad():
            logits = model(ids).logits[0, :-1].log_softmax(-1)
        nats -= logits.gather(1, ids[0, 1:, None]).sum().item()
        size += len(text.encode())
    recorded = json.loads(file.read_text())["metrics"]["bits_per_byte"]
    assert nats / math.log(2) / size == pytest.approx(recorded, abs=1e-3)


def test_the_model_card_tells_of_the_source_the_text_and_the_numbers(adapted, smollm2_cut):
    out, _ = adapted
    text = (out / "model/README.md").read_text(encoding="utf-8")
    assert yaml.safe_load(text.split("---")[1])["language"] == ["el"]
    assert "tiny adapted to Greek" in text
    assert f"Begin every text with `{smollm2_cut.eos_token}`" in text
    rows = {line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")}
    names = ("Bits per byte (lower is better)", "Tokens per sentence", "Bits per byte of English")
    assert {f"| {name}" for name in names} <= rows
    assert "–" not in text
    assert "270 sentences" in text  # 30 are held out
    assert not (out / "model/card.json").exists()


def test_choices_are_printed_with_their_reasons(adapted):
    for text in ("60", "as asked", "Greek (el)", "merge", "2x2ls-clm-512", "3,000 tokens"):
        assert text in adapted[1]


def test_the_report_and_the_study_lie_beside_the_model(adapted):
    out, _ = adapted
    assert "<html" in (out / "report.html").read_text(encoding="utf-8")
    study = yaml.safe_load((out / "study.yaml").read_text(encoding="utf-8"))
    assert study["languages"]["my-el"]["text"]["paths"][0].endswith("el.txt")


def test_the_same_command_again_trains_nothing_and_ends_alike(
    adapted, files, smollm2_folder_tiny, preloaded
):
    out, _ = adapted
    [cell] = out.glob("results/training/*/*/expand-60/*/*/seed-0/changed.safetensors")
    before = cell.stat().st_mtime_ns
    result = adapt(files, smollm2_folder_tiny, out)
    assert result.exit_code == 0, result.output
    assert cell.stat().st_mtime_ns == before
    assert "Bits per byte" in result.output


def test_an_edited_study_is_not_overwritten(adapted, files, smollm2_folder_tiny):
    out, _ = adapted
    file = out / "study.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text + "# mine\n", encoding="utf-8")
    try:
        with pytest.raises(UserError, match="you have edited it"):
            adapt(files, smollm2_folder_tiny, out, "--initializer", "mean")
        assert file.read_text(encoding="utf-8").endswith("# mine\n")
    finally:
        file.write_text(text, encoding="utf-8")


def test_a_job_that_fails_is_one_line_with_its_reason(
    tmp_path, files, smollm2_folder_tiny, preloaded
):
    model = tmp_path / "model"
    model.mkdir()
    for file in smollm2_folder_tiny.iterdir():
        if file.suffix != ".safetensors":
            (model / file.name).write_bytes(file.read_bytes())
    with pytest.raises(UserError, match=r"^prepare_source: .*model.*\(see .*prepare_source|source"):
        adapt(files, model, tmp_path / "out")


# ---- what is refused before anything runs ------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--minutes", "5"], "give one of them"),
        (["--initializer", "merg"], "--initializer: 'merg' .* did you mean 'merge'"),
        (["--strategy", "2x2ls"], "--strategy: '2x2ls'"),
        (["--model", "no-such-model"], "--model: 'no-such-model' is no folder"),
        (["--text", "nowhere.txt"], "nowhere.txt: there is no such file"),
    ],
)
def test_wrong_requests_are_told_in_one_line(
    options, message, tmp_path, files, smollm2_folder_tiny
):
    with pytest.raises(UserError, match=message):
        adapt(files, smollm2_folder_tiny, tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path, files, smollm2_folder_tiny):
    (tmp_path / "thesis.tex").write_text("dear to me")
    with pytest.raises(UserError, match="holds something else"):
        adapt(files, smollm2_folder_tiny, tmp_path)


def test_a_text_that_is_too_small_says_how_much_it_needs(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(generated("abc", LEAST_SENTENCES - 1)))
    with pytest.raises(UserError, match=f"{LEAST_SENTENCES} are the least"):
        look_at({"loader": "text", "paths": [str(tmp_path / "a.txt")]})


# ---- the text ----------------------------------------------------------------------------------


def facts_of(tmp_path, lines):
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    return look_at({"loader": "text", "paths": [str(tmp_path / "text.txt")]})


@pytest.mark.parametrize(
    ("letters", "script", "code"),
    [("αβγδε", "Grek", "el"), ("కగచజ", "Telu", "te"), ("abcde", "Latn", "und")],
)
def test_a_script_that_one_language_has_tells_the_language(tmp_path, letters, script, code):
    facts = facts_of(tmp_path, generated(letters))
    assert (facts.script, language_of(facts)) == (script, code)
    assert facts.share == 1


def test_repeated_and_damaged_lines_are_reported(tmp_path):
    lines = generated("abcdefgh")
    facts = facts_of(tmp_path, lines * 2)
    assert facts.sentences == len(set(lines)) and facts.lines == 2 * len(lines)
    assert "50% of the lines are repeated" in warnings(facts)[0]
    damaged = facts_of(tmp_path, [line + "\ufffd" for line in lines])
    assert any("U+FFFD" in said for said in warnings(damaged))


# ---- choices -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def facts(files):
    return look_at({"loader": "text", "paths": [str(files / "el.txt")]})


def test_a_small_text_gets_as_many_tokens_as_occur_often_in_it(facts, smollm2_cut):
    chosen = choose_new_tokens(smollm2_cut, facts, None)
    assert chosen.count in (50, 100, 250, 500)
    assert chosen.after < chosen.before


def test_more_tokens_than_the_text_yields_are_refused(facts, smollm2_cut):
    assert choose_new_tokens(smollm2_cut, facts, 20).count == 20
    with pytest.raises(UserError, match="asked for 100,000, and the text yields"):
        choose_new_tokens(smollm2_cut, facts, 100_000)


NEW = NewTokens(count=100, before=100.0, after=25.0, why="")


def budget(facts, **options):
    given = {"tokens": None, "minutes": 60.0, "speed": None} | options
    return plan_budget(facts, NEW, 512, **given)


def test_minutes_become_tokens_at_the_speed(facts):
    one, two = (budget(facts, minutes=minutes, speed=10.0) for minutes in (2, 4))
    assert two.tokens == 2 * one.tokens
    assert one.tokens <= 2 * 60 * 10
    assert "10 tokens/s" in one.why


def test_a_small_text_is_read_four_times_at_most_unless_more_is_asked_for(facts):
    assert budget(facts, speed=1e6).epochs == pytest.approx(4, rel=0.01)
    assert budget(facts, tokens=10**6).epochs > 100


def test_of_a_large_text_the_sentences_that_fit_are_read_once(facts):
    large = replace(facts, sentences=200_000, is_whole=False)
    chosen = budget(large, speed=100.0)
    assert chosen.epochs == 1
    assert chosen.sentences * NEW.after <= chosen.tokens < (chosen.sentences + 1) * NEW.after


@pytest.mark.parametrize("tokens", [1000, 10**5, 10**6, 10**8])
def test_steps_are_many_before_they_are_large(facts, tokens):
    chosen = budget(replace(facts, sentences=10**7, is_whole=False), tokens=tokens)
    steps = chosen.tokens / 512 / chosen.batch_sequences
    assert 1 <= chosen.batch_sequences <= 8
    assert chosen.batch_sequences == 1 or steps >= 200
    assert chosen.learning_rate == (5e-4 if steps < 1000 else 1e-4)


def test_the_cost_model_trains_a_model_of_twice_the_size_half_as_fast():
    strategy = {"phases": [{"trainable": ["all"]}], "gradient_checkpointing": False}
    speeds = [modelled_speed(strategy, parameters)[0] for parameters in (10**8, 2 * 10**8)]
    assert speeds[0] == 2 * speeds[1]


def test_the_speed_of_training_is_measured(smollm2_folder_tiny):
    from lexigraft.training.speed import tokens_per_second

    phases = [{"trainable": ["embeddings", "head", {"layers": [0, -1]}], "length": 32}]
    assert tokens_per_second(smollm2_folder_tiny, {"phases": phases}) > 0


def test_models_are_folders_names_of_the_hub_or_of_the_registry(tmp_path):
    known = {"smollm2": {}, "tiny": {}}
    assert source_entry("smollm2", known) == ("smollm2", {})
    assert source_entry("org/some.Model", known) == (
        "some.Model", {"some.Model": {"hub": "org/some.Model"}},
    )  # fmt: skip
    folder = tmp_path / "tiny"
    folder.mkdir()
    assert source_entry(str(folder), known) == ("my-tiny", {"my-tiny": {"folder": str(folder)}})


def test_the_conclusion_says_so_where_the_model_is_worse():
    source = Scores(2.0, 100.0, 1.0, 30)
    assert "20.0% better" in conclusion(
        {"source": source, "adapted": source._replace(bits_per_byte=1.6)}
    )
    worse = conclusion({"source": source, "adapted": source._replace(bits_per_byte=2.5)})
    assert "25.0% worse" in worse and "More training" in worse


def test_an_interrupted_run_ends_snakemake_and_says_how_to_go_on(
    tmp_path, files, smollm2_folder_tiny, monkeypatch, preloaded
):
    def interrupt(*_):
        raise KeyboardInterrupt

    ended = []
    monkeypatch.setattr(run, "_state", interrupt)
    end = run._end
    monkeypatch.setattr(run, "_end", lambda process: (end(process), ended.append(process.poll())))
    result = adapt(files, smollm2_folder_tiny, tmp_path / "out")
    assert result.exit_code == 130
    assert "The same command goes on" in result.output
    assert ended and ended[0] is not None
