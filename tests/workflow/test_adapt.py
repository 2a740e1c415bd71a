"""`lexigraft adapt`: what it refuses, chooses and says. tests/more runs the whole of it."""

import json
import os
import random
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from lexigraft.artifacts.cards import write_card
from lexigraft.errors import UserError
from lexigraft.training.progress import describe_progress
from tests import preloaded_python
from tests.adapting import adapt, sentences_of, write_texts
from workflow.adaptation import adaptation, run
from workflow.adaptation.adaptation import Adaptation
from workflow.adaptation.choices import (
    Choices,
    NewTokens,
    Speed,
    choose_new_tokens,
    modelled_speed,
    plan_budget,
    soon_scored,
    training_speed,
)
from workflow.adaptation.outcome import Scores, conclusion, place_files
from workflow.adaptation.request import Request, source_entry
from workflow.adaptation.text import (
    LEAST_SENTENCES,
    heldout_sentences,
    language_of,
    measure_text,
    warnings,
)
from workflow.config.registries import entries_of

REPOSITORY = Path(__file__).resolve().parents[2]


def generated(letters: str, sentences: int = 300) -> list[str]:
    """Sentences of words that repeat, in the letters of a script."""
    rng = random.Random(0)
    words = ["".join(rng.choices(letters, k=rng.randint(3, 8))) for _ in range(120)]
    return sentences_of(words, sentences)


@pytest.fixture(scope="module")
def files(tmp_path_factory, english):
    return write_texts(tmp_path_factory.mktemp("my texts"), english)


@pytest.fixture(scope="module")
def preloaded():
    """Snakemake and its jobs run in the preloaded Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", preloaded_python.python())
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        yield


# ---- what stops it ------------------------------------------------------------------------------


def test_a_job_that_fails_is_one_line_with_its_reason(
    tmp_path, files, smollm2_folder_tiny, preloaded
):
    model = tmp_path / "model"
    model.mkdir()
    for file in smollm2_folder_tiny.iterdir():
        if file.suffix != ".safetensors":
            (model / file.name).write_bytes(file.read_bytes())
    with pytest.raises(UserError, match=r"^prepare_source: .*model.*\(see .*source"):
        adapt(files, model, tmp_path / "out")


def test_what_a_user_may_edit_of_the_model_is_no_link_into_the_results(
    tmp_path, smollm2_folder_tiny
):
    exported, model = tmp_path / "exported", tmp_path / "model"
    shutil.copytree(smollm2_folder_tiny, exported)
    files = [file.name for file in exported.iterdir()]
    write_card(exported, {}, files)
    model.mkdir()
    place_files(exported, model)
    links = {file.name: file.stat().st_nlink for file in model.iterdir()}
    assert set(links) == set(files)
    assert links.pop("model.safetensors") == 2  # stored once
    assert set(links.values()) == {1}


@pytest.fixture
def written(tmp_path, files, smollm2_folder_tiny, monkeypatch):
    """A function that writes the study of a request in a folder, and runs nothing."""
    sizes = {"train_sentences": None, "heldout_sentences": 90, "english_sentences": 20}
    monkeypatch.setattr(Adaptation, "_finish", lambda *_: None)
    monkeypatch.setattr(
        Adaptation,
        "_choose",
        lambda self: Choices(
            self.request.new_tokens, self.request.initializer, "none", None, sizes, [], False, []
        ),
    )
    given = Request(
        str(smollm2_folder_tiny), [str(files / "ka.txt")], "text", None, 60, "merge", "none", 60.0,
        None, str(files / "en.txt"), None,
    )  # fmt: skip

    def write(**options):
        Adaptation(replace(given, **options), tmp_path / "out", False, 1).run()
        return yaml.safe_load((tmp_path / "out/study.yaml").read_text(encoding="utf-8"))

    return write


def test_other_options_in_the_same_folder_are_another_study(written):
    assert [*written()["vocabularies"]] == ["expand-60"]
    assert [*written(new_tokens=80)["vocabularies"]] == ["expand-80"]


def test_after_a_study_that_is_refused_the_folder_takes_another_request(written):
    with pytest.raises(UserError, match="wechsel"):
        written(initializer="wechsel")
    assert written()["cells"][-1]["initializers"] == ["merge"]
    with pytest.raises(UserError, match="wechsel"):
        written(initializer="wechsel")
    assert written()["cells"][-1]["initializers"] == ["merge"]


def test_an_initializer_that_lacks_what_it_reads_is_refused_before_the_first_job(
    files, smollm2_folder_tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr(adaptation, "run_study", lambda *_: pytest.fail("a job was started"))
    with pytest.raises(UserError, match="wechsel"):
        adapt(files, smollm2_folder_tiny, tmp_path / "out", "--initializer", "wechsel")
    assert [*(tmp_path / "out").iterdir()] == []


# ---- what is refused before anything runs ------------------------------------------------------


@pytest.mark.bad_input(
    "command",
    "invalid `adapt` options: model, language, text, initializer, strategy, both budgets",
    "a one-line error message names the option before anything is written",
)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--minutes", "5"], "give only one"),
        (["--initializer", "merg"], "--initializer: 'merg' .* did you mean 'merge'"),
        (["--strategy", "2x2ls"], "--strategy: '2x2ls'"),
        (["--model", "no-such-model"], "--model: 'no-such-model' is neither a folder"),
        (["--model", "smollm2-13m"], "did you mean 'smollm2-135m'"),
        (["--language", "Georgian"], "--language: 'Georgian' is not an ISO 639 code"),
        (["--language", "jpn"], "--language: 'jpn' has a shorter code; use ja"),
        (["--text", "nowhere.txt"], "nowhere.txt: there is no such file"),
    ],
)
def test_wrong_requests_are_told_in_one_line(
    options, message, tmp_path, files, smollm2_folder_tiny
):
    with pytest.raises(UserError, match=message):
        adapt(files, smollm2_folder_tiny, tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


@pytest.mark.bad_input(
    "command",
    "invalid `adapt` options: model, language, text, initializer, strategy, both budgets",
    "a one-line error message names the option before anything is written",
)
def test_a_folder_without_a_model_is_refused(tmp_path, files):
    with pytest.raises(UserError, match=r"--model: .* contains no config\.json"):
        adapt(files, files, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path, files, smollm2_folder_tiny):
    (tmp_path / "thesis.tex").write_text("dear to me")
    with pytest.raises(UserError, match="already exists with other content"):
        adapt(files, smollm2_folder_tiny, tmp_path)


def test_a_folder_of_texts_that_would_contain_the_results_is_refused(files, smollm2_folder_tiny):
    with pytest.raises(UserError, match=r"the folder contains the results folder .*--out"):
        adapt(files, smollm2_folder_tiny, files / "out", "--text", files)
    assert not (files / "out").exists()


def test_a_text_that_is_too_small_says_how_much_it_needs(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(generated("abc", LEAST_SENTENCES - 1)))
    with pytest.raises(UserError, match=f"at least {LEAST_SENTENCES} are needed"):
        measure_text({"loader": "text", "paths": [str(tmp_path / "a.txt")]})


# ---- the text ----------------------------------------------------------------------------------


def facts_of(tmp_path, lines):
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    return measure_text({"loader": "text", "paths": [str(tmp_path / "text.txt")]})


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
    return measure_text({"loader": "text", "paths": [str(files / "ka.txt")]})


def test_a_small_text_gets_as_many_tokens_as_occur_often_in_it(facts, smollm2_cut):
    chosen = choose_new_tokens(smollm2_cut, facts, None)
    assert chosen.count in (50, 100, 250, 500)
    assert chosen.after < chosen.before


@pytest.mark.bad_input(
    "command",
    "more new tokens for `adapt` than the text yields",
    "a one-line error message gives the number that it yields",
)
def test_more_tokens_than_the_text_yields_are_refused(facts, smollm2_cut):
    assert choose_new_tokens(smollm2_cut, facts, 20).count == 20
    with pytest.raises(UserError, match="100,000 requested, but the text only yields"):
        choose_new_tokens(smollm2_cut, facts, 100_000)


NEW = NewTokens(count=100, before=100.0, after=25.0, why="")


def speed(tokens_per_second):
    return Speed(0.0, 1 / tokens_per_second, "measured here")


def budget(facts, **options):
    given = {"tokens": None, "minutes": 60.0, "speed": None} | options
    return plan_budget(facts, heldout_sentences(facts.sentences), NEW, 512, **given)


def test_minutes_become_tokens_at_the_speed(facts):
    one, two = (budget(facts, minutes=minutes, speed=speed(10.0)) for minutes in (2, 4))
    assert two.tokens == 2 * one.tokens
    assert one.tokens <= 2 * 60 * 10
    assert one.why == "2 minutes at 10 tokens/s (measured here)"


def test_a_small_text_is_read_four_times_at_most_unless_more_is_asked_for(facts):
    chosen = budget(facts, speed=speed(1e6))
    assert chosen.epochs == pytest.approx(4, rel=0.01)
    assert "less than 60 minutes at 1,000,000 tokens/s (measured here)" in chosen.why
    assert budget(facts, tokens=10**6).epochs > 40


def test_of_a_large_text_the_sentences_that_fit_are_read_once(facts):
    large = replace(facts, sentences=200_000, is_whole=False)
    chosen = budget(large, speed=speed(100.0))
    assert chosen.epochs == 1
    each = NEW.after + 1  # a token separates sentences
    assert chosen.sentences * each <= chosen.tokens < (chosen.sentences + 1) * each


@pytest.mark.parametrize("minutes", [1, 5, 60, 600])
def test_what_is_trained_fits_into_the_minutes_though_small_steps_are_slow(facts, minutes):
    large = replace(facts, sentences=10**9, is_whole=False)
    slow = Speed(1.0, 0.003, "measured here")
    chosen = budget(large, minutes=minutes, speed=slow)
    steps = chosen.tokens / (512 * chosen.batch_sequences)
    seconds = steps * slow.seconds_per_step + chosen.tokens * slow.seconds_per_token
    assert 0.6 * 60 * minutes < seconds < 60 * minutes


def test_the_source_is_scored_in_a_part_of_the_time_to_train():
    fast, slow = (Speed(0.0, seconds, "measured here") for seconds in (1e-5, 4e-3))
    assert soon_scored(NEW, 60, fast) > 1000
    assert soon_scored(NEW, 5, slow) == 300  # 60 of 300 seconds, 0.2 a sentence of 100 tokens
    assert soon_scored(NEW, 0.1, slow) == 100


@pytest.mark.parametrize("tokens", [1000, 10**5, 10**6, 10**8])
def test_steps_are_many_before_they_are_large(facts, tokens):
    chosen = budget(replace(facts, sentences=10**7, is_whole=False), tokens=tokens)
    steps = chosen.tokens / 512 / chosen.batch_sequences
    assert 1 <= chosen.batch_sequences <= 8
    assert chosen.batch_sequences == 1 or steps >= 200
    assert chosen.learning_rate == (5e-4 if steps < 1000 else 1e-4)


def test_the_cost_model_trains_a_model_of_twice_the_size_half_as_fast():
    strategy = {"phases": [{"trainable": ["all"]}], "gradient_checkpointing": False}
    speeds = [modelled_speed(strategy, size).tokens_per_second(512) for size in (10**8, 2 * 10**8)]
    assert speeds[0] == 2 * speeds[1]


def test_the_speed_of_adapters_is_that_of_the_cost_model(tmp_path, caplog):
    entry = entries_of("strategies")["vocadt"]
    found = training_speed(tmp_path, entry, 10**8, threads=1)
    assert found == modelled_speed(entry, 10**8) and not caplog.text


def test_the_speed_of_training_is_measured(smollm2_folder_tiny):
    from lexigraft.training.speed import step_time

    phases = [{"trainable": ["embeddings", "head", {"layers": [0, -1]}], "length": 512}]
    assert step_time(smollm2_folder_tiny, {"phases": phases}).seconds_per_token > 0


def test_beside_the_bar_stands_what_fits_into_eighty_columns(tmp_path):
    step = {
        "event": "step", "phase": 0, "step": 1200, "steps": 3000, "loss": 7.3, "seconds": 1.0,
        "tokens_per_second": 81.0, "share_of_peak": None, "peak_memory_bytes": 2**31,
    }  # fmt: skip
    lines = [{"event": "heldout", "step": at, "bits_per_byte": 1.9 - at / 1e4} for at in (0, 900)]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in [*lines, step]))
    said = run.in_short(describe_progress(log))
    assert said == "bits per byte 1.810 (1.900 before), 0:30:00 left"
    assert len("training  1200/3000 ") + 10 + len(said) <= 80


def test_what_stops_snakemake_itself_is_one_line(tmp_path, monkeypatch):
    class Study:
        def jobs(self):
            return {}

    monkeypatch.chdir(tmp_path)
    said = 'WorkflowError in file "Snakefile", line 7:\nno space\n  File "Snakefile", line 7\n'
    assert run._failure(Study(), 0, said).startswith("Snakemake failed: no space (see ")
    assert "Snakemake failed: killed (" in run._failure(Study(), 0, "Job 1\nkilled\n")


def test_models_are_folders_names_of_the_hub_or_of_the_registry(tmp_path):
    known = {"smollm2": {}, "tiny": {}}
    assert source_entry("smollm2", known) == ("smollm2", {})
    assert source_entry("org/some.Model", known) == (
        "some.Model", {"some.Model": {"hub": "org/some.Model"}},
    )  # fmt: skip
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    assert source_entry(str(folder), known) == ("my-tiny", {"my-tiny": {"folder": str(folder)}})


def test_the_conclusion_says_so_where_the_model_is_worse():
    source = Scores(2.0, 100.0, 1.0, 30)
    assert "20.0% better" in conclusion(
        {"source": source, "adapted": source._replace(bits_per_byte=1.6)}
    )
    worse = conclusion({"source": source, "adapted": source._replace(bits_per_byte=2.5)})
    assert "25.0% worse" in worse and "More training" in worse


@pytest.mark.fault(
    "kill", "Ctrl-C during `lexigraft adapt`", "Snakemake ends, and one line says how to resume"
)
def test_an_interrupted_run_ends_snakemake_and_says_how_to_go_on(
    tmp_path, files, smollm2_folder_tiny, monkeypatch, preloaded
):
    def interrupt(*_):
        os.kill(os.getpid(), signal.SIGTERM)  # ends us as Ctrl-C does

    ended = []
    monkeypatch.setattr(run, "_state", interrupt)
    end = run._end
    monkeypatch.setattr(run, "_end", lambda process: (end(process), ended.append(process.poll())))
    result = adapt(files, smollm2_folder_tiny, tmp_path / "out")
    assert result.exit_code == 130
    assert "Run the same command again to resume" in result.output
    assert ended and ended[0] is not None
