"""The program that the metrics environment's Python runs: reads texts and writes scores as JSON.

It does not import lexigraft, whose libraries are not installed there. It only reads local folders.
Argument: JSON with `kind`, `checkpoint`, `encoder` (folders), `batch_size`, `uses_source`, `texts`
and `scores` (files). Each line of `texts` has the number of its `run`. The first line of `scores`
is {"device", "versions"}; then one line per run is written as soon as it is scored, in order:
{"scores": numbers in the order of its texts, "seconds"}. {"failed": why} is the last line after an
error.
"""

import json
import platform
import sys
import time
import traceback
from functools import partial
from importlib import metadata
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

PACKAGES = ("torch", "transformers", "tokenizers", "unbabel-comet", "bleurt-pytorch", "numpy")


def main() -> None:
    """Score the texts that the command line names, run by run."""
    from tqdm import tqdm

    job = json.loads(sys.argv[1])
    texts = Path(job["texts"]).read_text(encoding="utf-8")
    rows = [json.loads(line) for line in texts.split("\n") if line]
    runs = [list(own) for _, own in groupby(rows, key=lambda row: row["run"])]
    load, score = {
        "bleurt": (load_bleurt, score_with_bleurt),
        "comet": (load_comet, score_with_comet),
    }[job["kind"]]
    doing = f"{job['checkpoint']} cannot be loaded"
    with (
        Path(job["scores"]).open("w", encoding="utf-8") as file,
        tqdm(total=len(rows), desc=job["kind"], unit="text", mininterval=5) as progress,
    ):
        try:
            model = load(job)
            doing = "scoring failed"
            write(file, conditions())
            for own in runs:
                start = time.perf_counter()
                scores = score(model, own, job)
                write(file, {"scores": scores, "seconds": time.perf_counter() - start})
                progress.update(len(own))
        except ModuleNotFoundError as error:
            reason = f"the metrics environment has no {error.name}; run `make metrics`"
            write(file, {"failed": reason})
        # A checkpoint is an external file: no error in it may stop a study.
        except Exception as error:
            traceback.print_exc()
            first = (str(error).strip().splitlines() or ["no message"])[0]
            write(file, {"failed": f"{doing} ({type(error).__name__}: {first})"})


def write(file, line):
    """Write a line that the other process can read immediately."""
    file.write(json.dumps(line) + "\n")
    file.flush()


def load_bleurt(job):
    """Load a BLEURT model and its tokenizer, from safetensors or from a pickle of tensors only."""
    from bleurt_pytorch import BleurtForSequenceClassification, BleurtTokenizer

    folder = Path(job["checkpoint"])
    model, loading = BleurtForSequenceClassification.from_pretrained(
        folder,
        use_safetensors=(folder / "model.safetensors").is_file(),
        weights_only=True,
        local_files_only=True,
        output_loading_info=True,
    )
    _refuse_missing(loading["missing_keys"])
    tokenizer = BleurtTokenizer.from_pretrained(folder, local_files_only=True)
    return model.to(_device()).eval(), tokenizer


def score_with_bleurt(model, rows, job):
    """One score per row; as in BLEURT, the longer text is truncated if both do not fit."""
    import torch

    model, tokenizer = model
    scores = []
    for at in range(0, len(rows), job["batch_size"]):
        batch = rows[at : at + job["batch_size"]]
        inputs = tokenizer(
            [row["reference"] for row in batch],
            [row["output"] for row in batch],
            padding="longest",
            truncation="longest_first",
            max_length=model.config.max_position_embeddings,
            return_tensors="pt",
        )
        with torch.inference_mode():
            scores += model(**inputs.to(model.device)).logits.flatten().tolist()
    return scores


def load_comet(job):
    """Load a COMET model; nothing but its tensors is unpickled."""
    import comet.models
    import yaml

    folder = Path(job["checkpoint"])
    # COMET's YAML loader can create objects; a file that the safe loader accepts has none.
    settings = yaml.safe_load((folder / "hparams.yaml").read_text(encoding="utf-8"))
    identifier = settings["class_identifier"]
    kind = comet.models.str2model[identifier]
    kind.on_load_checkpoint = lambda model, checkpoint: _refuse_missing(
        {name for name, _ in model.named_parameters()} - set(checkpoint["state_dict"])
    )
    # COMET's own function handles the checkpoints' peculiarities, but has neither option.
    load = partial(kind.load_from_checkpoint, weights_only=True, pretrained_model=job["encoder"])
    path = str(folder / "checkpoints" / "model.ckpt")
    stand_in = {identifier: SimpleNamespace(load_from_checkpoint=load)}
    with patch.dict(comet.models.str2model, stand_in):
        return comet.models.load_from_checkpoint(path, local_files_only=True)


def score_with_comet(model, rows, job):
    """One score per row."""
    names = {"output": "mt", "reference": "ref"} | ({"source": "src"} if job["uses_source"] else {})
    samples = [{new: row[old] for old, new in names.items()} for row in rows]
    gpus = int(_device() == "cuda")
    found = model.predict(
        samples, batch_size=job["batch_size"], gpus=gpus, num_workers=0, progress_bar=False
    )
    return [float(score) for score in found.scores]


def conditions():
    """The device and the versions of the packages used for scoring."""
    versions = {"python": platform.python_version()}
    versions |= {package: metadata.version(package) for package in PACKAGES}
    return {"device": _device(), "versions": versions}


def _refuse_missing(names):
    """Raise an error for missing tensors: packages initialize them at random, with a warning."""
    if names:
        first = sorted(names)[0]
        raise ValueError(f"{len(names)} of the model's tensors are missing, such as {first}")


def _device():
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


if __name__ == "__main__":
    main()
