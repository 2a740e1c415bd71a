"""`lexigraft adapt` as it is installed, with a small model, to an adapted model and its report."""

import json
import re

import pytest
import yaml

from tests import preloaded_python
from tests.adapting import SENTENCES, arguments, write_texts
from tests.conftest import REPOSITORY, run_command


@pytest.fixture(scope="module")
def files(tmp_path_factory, english):
    return write_texts(tmp_path_factory.mktemp("my texts"), english)


@pytest.fixture(scope="module")
def adapted(tmp_path_factory, files, smollm2_folder_tiny, installed):
    """The folder of an adaptation by the installed package, and what it printed."""
    folder = tmp_path_factory.mktemp("my work")
    result = installed.run(folder, *arguments(files, smollm2_folder_tiny))
    logs = [log.read_text("utf-8") for log in folder.glob("*/snakemake.log")]
    assert result.returncode == 0, "".join([result.stderr, *logs])
    [out] = folder.iterdir()
    return out, result.stdout


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
    own = run_command(command, check=True)
    [file] = out.glob("results/evaluation/*/my-ka/expand-60/*/*/*/perplexity/run-0/record.json")
    recorded = json.loads(file.read_text())["metrics"]["bits_per_byte"]
    assert float(own.stdout) == pytest.approx(recorded, abs=1e-3)
    row = re.search(r"^\| Bits per byte \(.*\| (.+) \|$", card, re.MULTILINE)
    assert float(row[1]) == pytest.approx(recorded, abs=1e-3)


def test_the_model_card_tells_of_the_source_the_text_and_the_numbers(adapted):
    out, _ = adapted
    text = (out / "model/README.md").read_text(encoding="utf-8")
    assert yaml.safe_load(text.split("---")[1])["language"] == ["ka"]
    assert "tiny adapted to Georgian" in text
    assert "Begin every text with `<|endoftext|>`" in text
    rows = {line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")}
    names = ("Bits per byte (lower is better)", "Tokens per sentence", "Bits per byte of English")
    assert {f"| {name}" for name in names} <= rows
    assert "–" not in text
    assert f"{SENTENCES - SENTENCES // 10} sentences" in text  # the others are held out


def test_nothing_that_is_written_names_the_installed_package(adapted, installed):
    """So that the folder can be moved, and repeated by another installation."""
    out, _ = adapted
    for file in ("study.yaml", "adapt.json", "model/README.md", "report.html"):
        text = (out / file).read_text(encoding="utf-8")
        assert str(installed.environment) not in text and str(REPOSITORY) not in text, file


def test_choices_are_printed_with_their_reasons(adapted):
    for text in ("60", "as requested", "Georgian (ka)", "merge", "2x2ls-clm-512", "3,000 tokens"):
        assert text in adapted[1]


def test_the_report_and_the_study_lie_beside_the_model(adapted):
    out, _ = adapted
    assert "<html" in (out / "report.html").read_text(encoding="utf-8")
    study = yaml.safe_load((out / "study.yaml").read_text(encoding="utf-8"))
    assert study["languages"]["my-ka"]["text"]["paths"][0].endswith("ka.txt")


def test_the_curve_begins_beside_the_source_on_the_same_sentences(adapted):
    study = yaml.safe_load((adapted[0] / "study.yaml").read_text(encoding="utf-8"))
    assert {strategy["curve"]["sentences"] for strategy in study["strategies"].values()} == {32}
    for name in (cell["strategies"][0] for cell in study["cells"]):
        assert name in study["strategies"]


def test_the_same_command_again_does_nothing_and_ends_alike(
    adapted, files, smollm2_folder_tiny, installed
):
    out, printed = adapted
    [cell] = out.glob("results/training/*/*/expand-60/*/*/seed-0/changed.safetensors")
    before = cell.stat().st_mtime_ns
    result = installed.run(out.parent, *arguments(files, smollm2_folder_tiny))
    assert result.returncode == 0, result.stderr
    assert cell.stat().st_mtime_ns == before
    assert "Nothing to do: everything is finished." in result.stdout
    end = printed[printed.index("Bits per byte") :]
    assert str(out / "model") in end and result.stdout.endswith(end)


def test_a_resumed_run_repeats_no_finished_step(adapted, files, smollm2_folder_tiny, installed):
    out, _ = adapted
    [card] = out.glob("results/training/*/*/expand-60/*/*/seed-0/card.json")
    corpus = out / "results/corpus/my-ka/card.json"
    before = corpus.stat().st_mtime_ns
    card.unlink()
    checkpoint = card.parent / "checkpoints/0/phase-0/checkpoint-1"
    checkpoint.mkdir(parents=True)
    checkpoint.rmdir()
    result = installed.run(out.parent, *arguments(files, smollm2_folder_tiny))
    assert result.returncode == 0, result.stderr
    assert "Resuming; training continues from its last checkpoint." in result.stdout
    assert card.exists() and corpus.stat().st_mtime_ns == before
