"""`lexigraft adapt`: requests that it refuses, and what it chooses; tests/more runs all of it."""

import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import yaml

from lexigraft.corpus.cleaning import CleaningCounts
from lexigraft.corpus.reading import draw_text
from lexigraft.errors import UserError
from tests import preloaded_python
from tests.adapting import adapt, sentences_of, write_texts
from tests.conftest import REPOSITORY
from workflow.adaptation import adaptation, progress
from workflow.adaptation.adaptation import Scores, conclusion
from workflow.adaptation.choices import (
    Speed,
    TokenLengths,
    choose_new_tokens,
    plan_budget,
)
from workflow.adaptation.study import Choices, Request, source_entry
from workflow.adaptation.text import (
    LEAST_SENTENCES,
    heldout_sentences,
    language_of,
    measure_text,
)
from workflow.commands import running

INVALID_OPTIONS = pytest.mark.bad_input(
    "command",
    "invalid `adapt` options: model, language, text, initializer, strategy, both budgets",
    "a one-line error message names the option before anything is written",
)


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


# ---- runs that stop ----------------------------------------------------------------------------


def test_the_reason_of_a_failed_job_is_one_line(tmp_path, files, smollm2_folder_tiny, preloaded):
    model = tmp_path / "model"
    model.mkdir()
    for file in smollm2_folder_tiny.iterdir():
        if file.suffix != ".safetensors":
            (model / file.name).write_bytes(file.read_bytes())
    with pytest.raises(UserError, match=r"^source .*model.*\(see .*source"):
        adapt(files, model, tmp_path / "out")


@pytest.mark.fault(
    "kill", "Ctrl-C during `lexigraft adapt`", "Snakemake ends, and one line says how to resume"
)
def test_an_interrupted_run_ends_snakemake_and_says_how_to_resume(
    tmp_path, files, smollm2_folder_tiny, monkeypatch, preloaded
):
    def interrupt(*_):
        os.kill(os.getpid(), signal.SIGTERM)  # ends us as Ctrl-C does

    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(progress, "_progress", interrupt)
    monkeypatch.setattr(
        running.subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1]
    )
    result = adapt(files, smollm2_folder_tiny, tmp_path / "out")
    assert result.exit_code == 130
    assert "Run the same command again to resume" in result.output
    assert started and all(process.poll() is not None for process in started)


# ---- requests ----------------------------------------------------------------------------------


@INVALID_OPTIONS
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--minutes", "5"], "give only one"),
        (["--initializer", "merg"], "--initializer: 'merg' .* did you mean 'merge'"),
        (["--strategy", "2x2ls"], "--strategy: '2x2ls'"),
        (["--model", "no-such-model"], "--model: 'no-such-model' is neither a folder"),
        (["--model", "smollm2-13m"], "did you mean 'smollm2-135m'"),
        (["--model", "."], r"--model: .* contains no config\.json"),
        (["--language", "Georgian"], "--language: 'Georgian' is not an ISO 639 code"),
        (["--language", "jpn"], "--language: 'jpn' has a shorter code; use ja"),
        (["--dataset", "org/name"], "--text, --dataset: give one of them"),
        (["--text", "nowhere.txt"], "nowhere.txt: there is no such file"),
    ],
)
def test_an_invalid_option_is_refused_in_one_line(
    options, message, tmp_path, files, smollm2_folder_tiny, monkeypatch
):
    monkeypatch.chdir(files)
    with pytest.raises(UserError, match=message):
        adapt(files, smollm2_folder_tiny, tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_texts_that_would_contain_the_results_is_refused(files, smollm2_folder_tiny):
    with pytest.raises(UserError, match=r"the folder contains the results folder .*--out"):
        adapt(files, smollm2_folder_tiny, files / "out", "--text", files)
    assert not (files / "out").exists()


def test_an_initializer_without_its_inputs_is_refused_before_the_first_job(
    files, smollm2_folder_tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr(adaptation, "run_snakemake", lambda *_: pytest.fail("a job was started"))
    with pytest.raises(UserError, match="wechsel"):
        adapt(files, smollm2_folder_tiny, tmp_path / "out", "--initializer", "wechsel")
    assert [*(tmp_path / "out").iterdir()] == []


@pytest.fixture
def study_of(tmp_path, files, smollm2_folder_tiny, monkeypatch):
    """A function that writes the study of a request in a folder, and runs nothing."""
    sizes = {"train_sentences": None, "heldout_sentences": 90, "english_sentences": 20}
    monkeypatch.setattr(adaptation, "_prepare_source", lambda *_: None)
    monkeypatch.setattr(adaptation, "run_snakemake", lambda *_: True)
    monkeypatch.setattr(adaptation, "_show_outcome", lambda *_: None)
    monkeypatch.setattr(
        adaptation,
        "choose",
        lambda adapted, *_: Choices(adapted.request.new_tokens, "none", None, sizes, []),
    )
    request = Request(
        str(smollm2_folder_tiny), [str(files / "ka.txt")], "text", None, 60, "merge", "none", 60.0,
        None, str(files / "en.txt"), None,
    )  # fmt: skip

    def write(**options):
        adaptation.adapt(replace(request, **options), tmp_path / "out", False, 1)
        return yaml.safe_load((tmp_path / "out/study.yaml").read_text(encoding="utf-8"))

    return write


def test_an_edited_study_is_run_as_it_is_and_never_overwritten(study_of, tmp_path, capsys):
    study_of()
    file = tmp_path / "out/study.yaml"
    file.write_text(file.read_text("utf-8") + "# mine\n", encoding="utf-8")
    study_of()
    assert "running it without changes" in capsys.readouterr().out
    with pytest.raises(UserError, match="has been edited"):
        study_of(initializer="mean")
    assert file.read_text("utf-8").endswith("# mine\n")


def test_a_data_set_is_streamed_up_to_a_number_of_sentences(study_of, tmp_path):
    """A folder in the layout of the hub stands for a data set of the hub."""
    folder = tmp_path / "hub"
    for config, letters in (("kat_Geor", "აბგდევ"), ("tel_Telu", "కగచజ")):
        (folder / config).mkdir(parents=True)
        rows = [json.dumps({"text": line, "id": line[:2]}) for line in generated(letters)]
        (folder / config / "train.jsonl").write_text("\n".join(rows), encoding="utf-8")
    configs = [
        {"config_name": name, "data_files": [{"split": "train", "path": f"{name}/*.jsonl"}]}
        for name in ("kat_Geor", "tel_Telu")
    ]
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': configs})}---\n")
    study = study_of(
        text=[], dataset=f"{folder}:tel_Telu", reading={"read_sentences": 200, "markup": "strip"}
    )
    language = study["languages"]["my-te"]
    assert language["text"] == {
        "loader": "datasets", "name": str(folder), "config": "tel_Telu", "split": "train",
        "column": "text",
    }  # fmt: skip
    assert (language["read_sentences"], language["markup"]) == (200, "strip")
    assert (
        len(
            [
                *draw_text(
                    language | {"minimum_characters": 1},
                    tmp_path / "texts",
                    ("0",),
                    CleaningCounts(),
                    None,
                    None,
                )
            ]
        )
        == 200
    )


def test_a_model_is_a_folder_or_a_name_of_the_hub_or_the_registry(tmp_path):
    known = {"smollm2": {}, "tiny": {}}
    assert source_entry("smollm2", known) == ("smollm2", {})
    assert source_entry("org/some.Model", known) == (
        "some.Model", {"some.Model": {"hub": "org/some.Model"}},
    )  # fmt: skip
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    assert source_entry(str(folder), known) == ("my-tiny", {"my-tiny": {"folder": str(folder)}})


# ---- the text ----------------------------------------------------------------------------------


def facts_of(tmp_path, lines, **options):
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    return measure_text({"loader": "text", "paths": [str(tmp_path / "text.txt")]}, **options)


def test_a_text_that_is_too_small_is_refused_with_what_is_needed(tmp_path):
    with pytest.raises(UserError, match=f"at least {LEAST_SENTENCES} are needed"):
        facts_of(tmp_path, generated("abc", LEAST_SENTENCES - 1))


@pytest.mark.parametrize(
    ("letters", "script", "code"),
    [("αβγδε", "Grek", "el"), ("కగచజ", "Telu", "te"), ("abcde", "Latn", "und")],
)
def test_a_script_of_one_language_determines_the_language(tmp_path, letters, script, code):
    facts = facts_of(tmp_path, generated(letters))
    assert (facts.script, language_of(facts), facts.share) == (script, code, 1)


@pytest.mark.bad_input(
    "text",
    "a text in English, for another language",
    "a one-line error message says that it is English",
)
def test_english_is_not_taken_for_another_language(tmp_path, english):
    english = [line for line in english if len(line.split()) > 7]
    for language in ("sw", "te", None):
        with pytest.raises(UserError, match=r"--text: the text is English; .* --language en"):
            facts_of(tmp_path, english, language=language)
    assert facts_of(tmp_path, english, language="en", least=10).share > 0.9


@pytest.mark.bad_input(
    "text",
    "a text in several scripts, or with HTML or Markdown",
    "a warning names its share, and the option that keeps or removes these lines",
)
def test_a_mixture_is_reported_and_its_lines_can_be_selected(tmp_path, caplog):
    lines = generated("కగచజ", 150) + [f"<p>{line}</p>" for line in generated("абвгд", 150)]
    assert facts_of(tmp_path, lines, language="te").sentences == 300
    assert "50% of the lines look like Telugu, 0% like English; keep only the former" in caplog.text
    assert "HTML or Markdown" in caplog.text and "--strip-markup" in caplog.text
    caplog.clear()
    facts = facts_of(tmp_path, lines, language="te", reading={"only_language": True})
    assert (facts.sentences, facts.share, caplog.text) == (150, 1, "")
    stripped = facts_of(tmp_path, lines, language="ru", reading={"markup": "strip"})
    assert "<" not in "".join(stripped.sample) and "HTML" not in caplog.text


def test_paragraphs_are_split_into_sentences(tmp_path, caplog):
    sentences = [f"{line.capitalize()}." for line in generated("абвгд", 300)]
    facts = facts_of(tmp_path, [" ".join(sentences)])
    assert (facts.sentences, facts.reading) == (300, {"split_sentences": True})
    assert "split into sentences" in caplog.text
    assert facts_of(tmp_path, sentences).reading == {}


# ---- choices -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def facts(files):
    return measure_text({"loader": "text", "paths": [str(files / "ka.txt")]})


@pytest.mark.bad_input(
    "command",
    "more new tokens for `adapt` than the text yields",
    "a one-line error message gives the number that it yields",
)
def test_more_tokens_than_the_text_yields_are_refused(facts, smollm2_cut):
    assert choose_new_tokens(smollm2_cut, facts, 20).count == 20
    with pytest.raises(UserError, match="100,000 requested, but the text only yields"):
        choose_new_tokens(smollm2_cut, facts, 100_000)


LENGTHS = TokenLengths(source=100.0, target=25.0)


def budget(facts, speed=None, *, minutes=60.0, tokens=None):
    heldout = heldout_sentences(facts.sentences)
    return plan_budget(
        facts, heldout, LENGTHS, 512, tokens=tokens, minutes=minutes, speed=speed
    )  # fmt: skip


def speed(tokens_per_second):
    return Speed(0.0, 1 / tokens_per_second, "measured here")


def test_minutes_become_tokens_at_the_speed(facts):
    short, long = (budget(facts, speed(10.0), minutes=minutes) for minutes in (2, 4))
    assert long.tokens == 2 * short.tokens
    assert short.tokens <= 2 * 60 * 10
    assert short.reason == "2 minutes at 10 tokens/s (measured here)"


def test_a_small_text_is_read_four_times_at_most_unless_more_is_requested(facts):
    chosen = budget(facts, speed(1e6))
    assert chosen.epochs == pytest.approx(4, rel=0.01)
    assert "less than 60 minutes at 1,000,000 tokens/s (measured here)" in chosen.reason
    assert budget(facts, tokens=10**6).epochs > 40


@pytest.mark.parametrize("minutes", [1, 5, 60, 600])
def test_training_fits_into_the_minutes_even_if_small_steps_are_slow(facts, minutes):
    large = replace(facts, sentences=10**9, is_whole=False)
    slow = Speed(1.0, 0.003, "measured here")
    chosen = budget(large, slow, minutes=minutes)
    steps = chosen.tokens / (512 * chosen.batch_sequences)
    seconds = steps * slow.seconds_per_step + chosen.tokens * slow.seconds_per_token
    assert 0.6 * 60 * minutes < seconds < 60 * minutes


@pytest.mark.parametrize("tokens", [1000, 10**5, 10**6, 10**8])
def test_steps_become_larger_only_if_there_are_enough_of_them(facts, tokens):
    chosen = budget(replace(facts, sentences=10**7, is_whole=False), tokens=tokens)
    steps = chosen.tokens / 512 / chosen.batch_sequences
    assert 1 <= chosen.batch_sequences <= 8
    assert chosen.batch_sequences == 1 or steps >= 200
    assert chosen.learning_rate == (5e-4 if steps < 1000 else 1e-4)


def test_the_speed_of_training_is_measured(smollm2_folder_tiny):
    from workflow.adaptation.speed import step_time

    phases = [{"trainable": ["embeddings", "head", {"layers": [0, -1]}], "length": 512}]
    assert step_time(smollm2_folder_tiny, {"phases": phases})["seconds_per_token"] > 0


# ---- progress and outcome ----------------------------------------------------------------------


def test_the_conclusion_says_whether_the_model_is_better_or_worse():
    source = Scores(2.0, 100.0, 1.0, 30)
    better, worse = (
        conclusion({"source": source, "adapted": source._replace(bits_per_byte=bits)})
        for bits in (1.6, 2.5)
    )
    assert "20.0% better" in better
    assert "25.0% worse" in worse and "More training" in worse
