"""Bad input stops the stage that reads it, with one line that names the file or the key."""

import json
import shutil
from pathlib import Path

import pytest

from tests.workflow.conftest import Checkout, errors_of

TOKENIZER = "results/vocabulary/tiny/telugu/expand-50/card.json"
CORPUS = "results/corpus/telugu/card.json"
SOURCE = "results/source/tiny/card.json"


def refused(checkout: Checkout, target: str) -> str:
    """The one line by which a run for `target` failed."""
    result = checkout.snakemake("--", target)
    assert result.returncode != 0
    output = result.stdout + result.stderr
    assert "Traceback" not in output
    lines = errors_of(output)
    assert len(lines) == 1, output
    return lines.pop()


def use_text(checkout: Checkout, content: bytes) -> None:
    (checkout.folder / "own.txt").write_bytes(content)

    def change(config):
        config["languages"]["telugu"]["text"]["paths"] = ["own.txt"]

    checkout.change(change)


def use_source(checkout: Checkout, folder: Path) -> Path:
    """A copy of the study's source that a test may spoil."""
    shutil.copytree(folder, checkout.folder / "model")

    def change(config):
        config["sources"]["tiny"]["folder"] = "model"

    checkout.change(change)
    return checkout.folder / "model"


@pytest.mark.bad_input(
    "text",
    "an empty file, a file of blank lines, a Parquet file without rows",
    "a one-line error message names the file",
)
def test_a_text_of_blank_lines(checkout):
    use_text(checkout, b"\n \n\r\n")
    assert "Telugu" in refused(checkout, CORPUS)


@pytest.mark.bad_input(
    "text",
    "a text with a byte that is not UTF-8",
    "a one-line error message gives the file, the line and the position of the byte",
)
def test_a_text_that_is_not_utf8(checkout):
    use_text(checkout, "Größe\n".encode("latin-1") * 50)
    message = refused(checkout, CORPUS)
    assert "own.txt" in message
    assert "UTF-8" in message


@pytest.mark.bad_input(
    "text",
    "more new tokens than the text yields",
    "a one-line error message gives the number that it yields",
)
def test_more_new_tokens_than_the_text_can_give(checkout):
    def change(config):
        config["vocabularies"] = {"huge": {"base": "expand-50", "new_tokens": 40_000}}
        config["cells"][1]["vocabularies"] = ["huge"]

    checkout.change(change)
    message = refused(checkout, TOKENIZER.replace("expand-50", "huge"))
    assert "new_tokens" in message
    assert "40000" in message.replace(",", "")


@pytest.mark.bad_input(
    "model",
    "a tokenizer with more tokens than the model has rows",
    "a one-line error message gives both numbers",
)
def test_a_tokenizer_with_more_tokens_than_the_model_has_rows(
    checkout, smollm2_folder_tiny, tiny_llama
):
    folder = use_source(checkout, smollm2_folder_tiny)
    tiny_llama(1000).save_pretrained(folder)
    message = refused(checkout, SOURCE)
    assert "model" in message
    assert "1000" in message.replace(",", "")


@pytest.mark.bad_input(
    "model",
    "a model that is not a causal language model",
    "a one-line error message names its architecture",
)
def test_a_source_that_is_no_causal_language_model(checkout, smollm2_folder_tiny):
    folder = use_source(checkout, smollm2_folder_tiny)
    config = json.loads((folder / "config.json").read_text())
    config.update(architectures=["BertForMaskedLM"], model_type="bert")
    (folder / "config.json").write_text(json.dumps(config))
    assert "causal" in refused(checkout, SOURCE)


@pytest.mark.bad_input(
    "model",
    "weights that are truncated, too long, or not in safetensors format",
    "a one-line error message names the file",
)
def test_weights_that_are_cut_off(checkout, smollm2_folder_tiny):
    folder = use_source(checkout, smollm2_folder_tiny)
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    assert "model.safetensors" in refused(checkout, SOURCE)


@pytest.mark.bad_input(
    "text",
    "Windows line endings, blank and duplicate lines, decomposed characters",
    "cleaned, and counted in the card",
)
def test_windows_line_ends_blank_and_repeated_lines_and_decomposed_letters_are_counted(
    checkout, texts
):
    import unicodedata

    lines = (texts / "telugu.txt").read_text(encoding="utf-8").splitlines()
    decomposed = unicodedata.normalize("NFD", "Ένα κείμενο με τόνους, αρκετά μακρύ")
    content = "\r\n".join([*lines, "", lines[0], decomposed]) + "\r\n"
    use_text(checkout, content.encode("utf-8"))
    result = checkout.snakemake("--", CORPUS)
    assert result.returncode == 0, result.stderr
    counts = json.loads((checkout.folder / CORPUS).read_text())["cleaning"]["text"]
    assert counts["windows_line_ends"] == len(lines) + 3
    assert (counts["blank"], counts["duplicate"], counts["not_nfc"]) == (1, 1, 1)
    train = (checkout.folder / "results/corpus/telugu/train.txt").read_bytes()
    assert b"\r" not in train


@pytest.mark.bad_input(
    "config",
    "an unknown initializer, strategy or language",
    "rejected with a message that suggests a similar name",
)
@pytest.mark.parametrize("key, value", [("languages", "no-such"), ("strategies", "no-such")])
def test_an_unknown_name_stops_snakemake_itself(checkout, key, value):
    checkout.change(lambda config: config["cells"][1].update({key: [value]}))
    result = checkout.snakemake("--dry-run")
    assert result.returncode != 0
    assert f"config.cells[1].{key}: 'no-such' is not known" in result.stdout + result.stderr
