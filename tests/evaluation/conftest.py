"""Jobs on a corpus and a cell folder, small enough to follow by hand."""

import json
import random
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent
WORDS = ["లక్ష్మి", "తెలుగు.", "γλώσσα", "a", "(of", "the)", "ไทย", "x", "“y”", "", "!", "我是"]


def drawn_pairs(seed, count=150, share=0.6):
    """Outputs that have about this share of the words of their references."""
    draw = random.Random(seed)
    references = [" ".join(draw.choices(WORDS, k=draw.randrange(9))) for _ in range(count)]
    outputs = [
        " ".join(word if draw.random() < share else draw.choice(WORDS) for word in text.split())
        for text in references
    ]
    return outputs, references


@pytest.fixture
def model(varied_llama):
    """The model that tasks are run on."""
    return varied_llama


@pytest.fixture
def make_job(tmp_path, byte_tokenizer):
    """A job on a corpus of a few sentences and a cell whose vocabulary is the source's own."""
    corpus, cell = tmp_path / "corpus", tmp_path / "cell"
    (corpus / "tasks").mkdir(parents=True)
    cell.mkdir()
    (corpus / "heldout.txt").write_text("Καλημέρα κόσμε\nένα δύο τρία\nναι\n", "utf-8")
    (corpus / "english.txt").write_text("Good morning\none two three\n", "utf-8")
    pairs = [("one", "ένα"), ("good morning world", "καλημέρα κόσμε"), ("yes", "ναι"), ("a b", "γ")]
    rows = [{"id": f"s{at}", "source": en, "target": el} for at, (en, el) in enumerate(pairs)]
    (corpus / "tasks" / "translation.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), "utf-8"
    )
    articles = [
        ("Ο ήλιος βγήκε νωρίς.\nΈκανε ζέστη όλη μέρα.", "ήλιος και ζέστη"),
        ("Βροχή.", "βροχή"),
        ("Το τρένο άργησε πολύ σήμερα το πρωί.", "το τρένο άργησε"),
        ("Άνοιξε νέο σχολείο στο χωριό.", "νέο σχολείο"),
    ]
    rows = [{"id": f"a{at}", "source": a, "reference": s} for at, (a, s) in enumerate(articles)]
    (corpus / "tasks" / "summarization.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), "utf-8"
    )
    (tmp_path / "tokenizer").mkdir()
    byte_tokenizer().save_pretrained(tmp_path / "source-tokenizer")
    references = {"source": ".", "tokenizer": "../tokenizer"}
    card = {"references": references, "files": {}, "input_checksums": {}}
    (cell / "card.json").write_text(json.dumps(card))

    def build(kind: str, run: int = 0, **settings):
        folder = tmp_path / "evaluation" / kind / f"run-{run}"
        return {
            "rule": "evaluate",
            "settings": {"kind": kind, **settings},
            "inputs": {
                "cell": str(cell),
                "tokenizer": str(tmp_path / "tokenizer"),
                "corpus": str(corpus),
                "prompts": str(REPOSITORY / "config" / "prompts"),
                **({"source": str(tmp_path / "source-tokenizer")} if kind == "perplexity" else {}),
            },
            "outputs": {
                "folder": str(folder),
                "record": str(folder / "record.json"),
                "predictions": str(folder / "predictions.jsonl"),
            },
            "cell": {"source": "tiny", "language": "el-kolibri", "vocabulary": "source"},
            "language": "el",
            "language_name": "Greek",
            "task": kind,
            "run": run,
            "seed": [0, "evaluation", "el-kolibri", kind, run],
        }

    return build


@pytest.fixture
def cell(make_job, smollm2_folder_tiny, tmp_path, monkeypatch):
    """A cell with a changed matrix on a random model, where `make_job` looks."""
    import torch

    from lexigraft.source.model import load_model
    from lexigraft.training.store import save_cell

    monkeypatch.setenv("LEXIGRAFT_PRECISION", "float32")
    source = tmp_path / "source"
    source.mkdir()
    described = {"kind": "folder", "path": str(smollm2_folder_tiny), "revision": None}
    (source / "source.json").write_text(json.dumps(described))
    folder = Path(make_job("translation")["inputs"]["cell"])
    inputs = {"source": str(source), "tokenizer": str(source), "initialization": None}
    job = {"rule": "train", "inputs": inputs, "outputs": {"folder": str(folder)}, "settings": {}}
    job["cell"] = {"source": "tiny"}
    model = load_model(smollm2_folder_tiny, "float32")
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(30)
    save_cell(folder, model, ["model.embed_tokens.weight"], job=job, read={})
    return folder


@pytest.fixture
def cell_job(cell, make_job, tmp_path):
    """`cell_job(name={"kind", "runs", settings})`: all of these tasks on the cell."""

    def build(study: str = "test", **tasks):
        one = make_job("translation")
        folder = tmp_path / "evaluation"
        described, read = {}, {}
        for name, entry in tasks.items():
            runs = entry.pop("runs", 1)
            read[name] = {key: one["inputs"][key] for key in ("corpus", "prompts")}
            described[name] = {
                "settings": {"kind": name, **entry},
                "language": "el",
                "language_name": "Greek",
                "runs": runs,
                "seed": [0, "evaluation", "el-kolibri", name],
                "versions": {"task perplexity": 1},
            }
        return {
            "rule": "evaluate",
            "settings": {},
            "inputs": {"cell": str(cell), "read": read},
            "outputs": {"folder": str(folder), "card": str(folder / f"card-{study}.json")},
            "cell": one["cell"],
            "tasks": described,
        }

    return build


@pytest.fixture
def writing(model, monkeypatch):
    """Let the model write a text of the test's choice, then a line feed."""

    import torch

    def write(text, tokenizer):
        ids = tokenizer(text + "\nmore")["input_ids"]
        monkeypatch.setattr(
            model,
            "generate",
            lambda given, **_: torch.cat([given, torch.tensor([ids] * len(given))], dim=1),
        )

    return write
