"""A cell is combined only with the source, tokenizer and initialization of its training."""

import json
import shutil
from pathlib import Path

import pytest

from lexigraft.artifacts import completion
from lexigraft.artifacts.cards import write_card
from lexigraft.artifacts.verification import verify
from lexigraft.errors import UserError
from lexigraft.evaluation.evaluate import evaluate_cell
from lexigraft.initialization.registry import initializer
from lexigraft.initialization.storage import save_initialization
from lexigraft.training.export import export
from lexigraft.training.store import load_cell
from lexigraft.training.train import train_cell
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.tokenizer_files import save_tokenizer

PARTS = {
    "source": ("source/tiny", "config.json"),
    "tokenizer": ("vocabulary/tiny/te/new", "tokenizer.json"),
    "initialization": ("initialization/tiny/te/new/mean/all-seeds", "recipe.npz"),
}
CELL = "training/tiny/te/source/none/s/seed-0"


def complete(folder: Path, **facts) -> None:
    """Write the card of a folder, as the last step of its job does."""
    files = sorted(path.name for path in folder.iterdir() if path.name != "card.json")
    write_card(folder, {"rule": "made", "settings": {}}, files, **facts)


@pytest.fixture(scope="module")
def trained(training_setup_in, without_bos, telugu, tmp_path_factory) -> Path:
    """Results with a cell, without training, and with a card in each folder that it reads."""
    place = training_setup_in(tmp_path_factory.mktemp("trained"))()
    target = expand_tokenizer(without_bos, telugu, new_tokens=30)
    folders = {name: place.results / folder for name, (folder, _) in PARTS.items()}
    save_tokenizer(target, folders["tokenizer"])
    fitted = initializer("mean").fit(without_bos, target, n_source=320)
    save_initialization(fitted, folders["initialization"])
    for folder in (*folders.values(), place.corpus):
        complete(folder)
    job = place.job({"phases": []})
    job["inputs"] |= {name: str(folder) for name, folder in folders.items()}
    train_cell(job)
    return place.results


@pytest.fixture
def results(trained, tmp_path) -> Path:
    """A copy in another place: results may be moved as a whole."""
    return shutil.copytree(trained, tmp_path / "moved")


def load(cell: Path) -> None:
    load_cell(cell)


def export_it(cell: Path) -> None:
    export(cell, cell.parents[7] / "exported")


def evaluate(cell: Path) -> None:
    folder = str(cell.parents[7] / "evaluated")
    evaluate_cell({"inputs": {"cell": str(cell), "read": {}}, "outputs": {"folder": folder},
                   "rule": "evaluate", "tasks": {}})  # fmt: skip


def verify_all(cell: Path) -> None:
    for fault in verify(cell.parents[6]).faults:
        raise UserError(f"{fault.file}: {fault.what}")


PAIRS = [
    ("source", load),
    ("tokenizer", export_it),
    ("initialization", evaluate),
    ("initialization", verify_all),
]


@pytest.mark.parametrize(("part", "consumer"), PAIRS)
def test_a_cell_with_another_source_tokenizer_or_initialization_is_refused(results, part, consumer):
    place, name = PARTS[part]
    file = results / place / name
    file.write_bytes(file.read_bytes() + b"\n")
    complete(results / place)
    with pytest.raises(UserError, match=f"{CELL}: its {part} .*run the study again") as error:
        consumer(results / CELL)
    assert str(results / place) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(("part", "consumer"), PAIRS)
def test_an_input_that_was_made_again_with_the_same_content_is_accepted(results, part, consumer):
    folder = results / PARTS[part][0]
    complete(folder, seconds=12.0, device="another", input_checksums={"../other": "abc"})
    consumer(results / CELL)


@pytest.fixture
def replaced(results) -> Path:
    """The cell after a first change, which replaced it; a report was built since."""
    write_card(results / "report/mine", {"rule": "report"}, [])
    outputs = {"folder": str(results / CELL), "replaced": str(results / completion.REPLACED)}
    job = {"inputs": [], "outputs": outputs}
    completion.complete(job, "of other settings")
    folder = completion.move_replaced(job)
    assert folder is not None
    return folder


def test_the_inputs_of_a_replaced_cell_may_change(results, replaced, part="source"):
    assert verify(results).faults == []
    place, name = PARTS[part]
    (results / place / name).write_bytes((results / place / name).read_bytes() + b"\n")
    complete(results / place)
    assert verify(results).faults == []
    with pytest.raises(UserError, match=f"its {part} "):
        load(replaced)


def test_a_cell_with_another_corpus_loads_but_its_card_omits_the_corpus(results):
    corpus = results / "corpus/te"
    (corpus / "train.txt").write_text("one\n")
    complete(corpus, sizes={"train": {"sentences": 1, "bytes": 4}})
    assert (
        "Training text" not in (export(results / CELL, results / "out") / "README.md").read_text()
    )


def test_a_card_without_checksums_of_inputs_is_refused(results):
    """As those of earlier versions."""
    card = json.loads((results / CELL / "card.json").read_text())
    del card["input_checksums"]
    (results / CELL / "card.json").write_text(json.dumps(card))
    with pytest.raises(UserError, match=r"a version before 0.3 .*; run the study again"):
        load_cell(results / CELL)
