"""`lexigraft adapt` with a small model and generated sentences, to a model and its report."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from lexigraft.commands.app import app
from lexigraft.errors import UserError
from lexigraft.training.progress import describe_progress
from tests import preloaded_python
from workflow.adaptation import run
from workflow.adaptation.choices import NewTokens, choose_new_tokens, modelled_speed, plan_budget
from workflow.adaptation.outcome import Scores, conclusion
from workflow.adaptation.request import source_entry
from workflow.adaptation.text import LEAST_SENTENCES, language_of, look_at, warnings
from workflow.stages.study import open_study

REPOSITORY = Path(__file__).resolve().parents[2]
SENTENCES = 900
GEORGIAN = """
    აქ ბავშვი ბებია ბიჭი გოგო გუშინ გზა დედა დიდი დღეს ენა ერთი ვაშლი ზამთარი ზღვა თბილისი თეთრი
    თოვლი იქ ის ისინი კარგი კატა კაცი ლამაზი მამა მდინარე მეგობარი მე მზე მთა მოვიდა მუშაობს მწვანე
    ნახა ორი პატარა პური ქალაქი ქალი ქვა ღამე ყვავილი ყოველთვის შავი შენ ჩემი ცა წავიდა წერს წიგნი
    წითელი წყალი ჭამს ხე ხვალ ხილი ჰგავს
"""


def sentences_of(words: list[str], sentences: int = SENTENCES) -> list[str]:
    rng = random.Random(1)
    return [" ".join(rng.choices(words, k=rng.randint(5, 11))) for _ in range(sentences)]


def generated(letters: str, sentences: int = 300) -> list[str]:
    """Sentences of words that repeat, in the letters of a script."""
    rng = random.Random(0)
    words = ["".join(rng.choices(letters, k=rng.randint(3, 8))) for _ in range(120)]
    return sentences_of(words, sentences)


@pytest.fixture(scope="module")
def files(tmp_path_factory, english):
    folder = tmp_path_factory.mktemp("my texts")
    (folder / "ka.txt").write_text("\n".join(sentences_of(GEORGIAN.split())), encoding="utf-8")
    (folder / "en.txt").write_text("\n".join(english[:20]), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def preloaded():
    """Snakemake and its jobs run in the preloaded Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", preloaded_python.python())
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        yield


def arguments(files, model, *options) -> list[str]:
    given = [
        "adapt", "--model", model, "--text", files / "ka.txt", "--english", files / "en.txt",
        "--tokens", 3000, "--new-tokens", 60, "--cores", 2, *options,
    ]  # fmt: skip
    return [str(one) for one in given]


def adapt(files, model, out, *options):
    """The result of the command; a UserError is raised as it is."""
    result = CliRunner().invoke(app, arguments(files, model, "--out", out, *options))
    if isinstance(result.exception, UserError):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def adapted(tmp_path_factory, files, smollm2_folder_tiny, installed):
    """The folder of an adaptation by the installed package, and what it printed."""
    folder = tmp_path_factory.mktemp("my work")
    result = installed.run(folder, *arguments(files, smollm2_folder_tiny))
    logs = [log.read_text("utf-8") for log in folder.glob("*/snakemake.log")]
    assert result.returncode == 0, "".join([result.stderr, *logs])
    [out] = folder.iterdir()
    return out, result.stdout


# ---- the whole of it ---------------------------------------------------------------------------


ALONE = """
import json, math, sys
sys.modules["lexigraft"] = None  # to import it fails
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, heldout, beginning = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder).eval()
nats = size = 0.0
for text in open(heldout, encoding="utf-8").read().split("\\n")[:-1]:
    ids = tokenizer(beginning + text, return_tensors="pt").input_ids
    with torch.no_grad():
        logits = model(ids).logits[0, :-1].log_softmax(-1)
    nats -= logits.gather(1, ids[0, 1:, None]).sum().item()
    size += len(text.encode())
print(nats / math.log(2) / size)
"""


def test_the_model_gives_the_recorded_bits_per_byte_with_transformers_alone(adapted, tmp_path):
    out, _ = adapted
    card = (out / "model/README.md").read_text(encoding="utf-8")
    beginning = re.search(r"Begin every text with `(.+?)`", card)[1]
    (tmp_path / "alone.py").write_text(ALONE, encoding="utf-8")
    heldout = out / "results/corpus/my-ka/heldout.txt"
    command = [preloaded_python.python(), tmp_path / "alone.py", out / "model", heldout, beginning]
    own = subprocess.run(command, capture_output=True, text=True, check=True)
    [file] = out.glob("results/evaluation/*/my-ka/expand-60/*/*/*/perplexity/run-0/record.json")
    recorded = json.loads(file.read_text())["metrics"]["bits_per_byte"]
    assert float(own.stdout) == pytest.approx(recorded, abs=1e-3)
    row = re.search(r"^\| Bits per byte \(.*\| (.+) \|$", card, re.MULTILINE)
    assert float(row[1]) == pytest.approx(recorded, abs=1e-3)


def test_the_model_card_tells_of_the_source_the_text_and_the_numbers(adapted, smollm2_cut):
    out, _ = adapted
    text = (out / "model/README.md").read_text(encoding="utf-8")
    assert yaml.safe_load(text.split("---")[1])["language"] == ["ka"]
    assert "tiny adapted to Georgian" in text
    assert f"Begin every text with `{smollm2_cut.eos_token}`" in text
    rows = {line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")}
    names = ("Bits per byte (lower is better)", "Tokens per sentence", "Bits per byte of English")
    assert {f"| {name}" for name in names} <= rows
    assert "–" not in text
    assert f"{SENTENCES - SENTENCES // 10} sentences" in text  # the others are held out
    assert not (out / "model/card.json").exists()


def test_nothing_that_is_written_names_the_installed_package(adapted, installed):
    """So that the folder can be moved, and repeated by another installation."""
    out, _ = adapted
    for file in ("study.yaml", "adapt.json", "model/README.md", "report.html"):
        text = (out / file).read_text(encoding="utf-8")
        assert str(installed.environment) not in text and str(REPOSITORY) not in text, file


def test_choices_are_printed_with_their_reasons(adapted):
    for text in ("60", "as asked", "Georgian (ka)", "merge", "2x2ls-clm-512", "3,000 tokens"):
        assert text in adapted[1]


def test_the_report_and_the_study_lie_beside_the_model(adapted):
    out, _ = adapted
    assert "<html" in (out / "report.html").read_text(encoding="utf-8")
    study = yaml.safe_load((out / "study.yaml").read_text(encoding="utf-8"))
    assert study["languages"]["my-ka"]["text"]["paths"][0].endswith("ka.txt")


def test_the_same_command_again_does_nothing_and_ends_alike(
    adapted, files, smollm2_folder_tiny, installed
):
    out, printed = adapted
    [cell] = out.glob("results/training/*/*/expand-60/*/*/seed-0/changed.safetensors")
    before = cell.stat().st_mtime_ns
    result = installed.run(out.parent, *arguments(files, smollm2_folder_tiny))
    assert result.returncode == 0, result.stderr
    assert cell.stat().st_mtime_ns == before
    assert "Nothing to do: all of it is finished." in result.stdout
    end = printed[printed.index("Bits per byte") :]
    assert str(out / "model") in end and result.stdout.endswith(end)


def test_a_run_that_goes_on_says_how_far_the_last_one_came(adapted, monkeypatch):
    out, _ = adapted
    monkeypatch.chdir(out)
    study = open_study("study.yaml")
    targets = [study.output("build_report").card]
    assert run.finished_part(study, targets) == ""
    [card] = Path().glob("results/training/*/*/expand-60/*/*/seed-0/card.json")
    steps = len(run._with_needs(study.jobs(), targets))
    card.rename("card.json")
    checkpoint = card.parent / "checkpoints/0/phase-0/checkpoint-1"
    checkpoint.mkdir(parents=True)
    try:
        said = run.finished_part(study, targets)
    finally:
        Path("card.json").rename(card)
        shutil.rmtree(card.parent / "checkpoints")
    assert said.startswith(f"Going on: {steps - 1} of {steps} steps are finished; training goes on")


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


@pytest.mark.bad_input(
    "command",
    "wrong requests to `adapt`: model, language, text, initializer, strategy, both budgets",
    "one line with the option, before anything is written",
)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--minutes", "5"], "give one of them"),
        (["--initializer", "merg"], "--initializer: 'merg' .* did you mean 'merge'"),
        (["--strategy", "2x2ls"], "--strategy: '2x2ls'"),
        (["--model", "no-such-model"], "--model: 'no-such-model' is no folder"),
        (["--model", "smollm2-13m"], "did you mean 'smollm2-135m'"),
        (["--language", "Georgian"], "--language: 'Georgian' is no ISO 639 code"),
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
    "wrong requests to `adapt`: model, language, text, initializer, strategy, both budgets",
    "one line with the option, before anything is written",
)
def test_a_folder_without_a_model_is_refused(tmp_path, files):
    with pytest.raises(UserError, match=r"--model: .* holds no config\.json"):
        adapt(files, files, tmp_path / "out")
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
    return look_at({"loader": "text", "paths": [str(files / "ka.txt")]})


def test_a_small_text_gets_as_many_tokens_as_occur_often_in_it(facts, smollm2_cut):
    chosen = choose_new_tokens(smollm2_cut, facts, None)
    assert chosen.count in (50, 100, 250, 500)
    assert chosen.after < chosen.before


@pytest.mark.bad_input(
    "command",
    "more new tokens than the text yields, of `adapt`",
    "one line says how many it yields",
)
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
    assert budget(facts, tokens=10**6).epochs > 40


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
    "kill", "Ctrl-C in `lexigraft adapt`", "Snakemake ends, and a line says how to go on"
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
    assert "The same command goes on" in result.output
    assert ended and ended[0] is not None
