"""What vLLM makes of model folders, in a process of its own: `vllm_texts.py JOB OUT`.

The job, a JSON file, has `folders` (name -> model), `prompts` (id -> text), `max_new_tokens`,
`stops` (of each folder, name -> stop strings) and `texts` to tokenize. For each folder, `OUT` has
the `tokens` of `texts`, the generated `outputs` by the name of their stop strings, and how many
`processes` of the engine are left.
"""

import json
import multiprocessing
import sys
import time
from dataclasses import asdict
from pathlib import Path

import torch

from lexigraft.inference.generation import generate
from lexigraft.inference.vllm_model import VllmModel
from lexigraft.source.tokenizer import load_tokenizer


def main(job_file: str, out: str) -> None:
    from vllm.tokenizers import get_tokenizer

    job = json.loads(Path(job_file).read_text("utf-8"))
    found = {}
    for name, folder in job["folders"].items():
        model, tokenizer = VllmModel(folder, torch.float32), load_tokenizer(folder)
        outputs = {
            stop: generate(
                model, tokenizer, job["prompts"], max_new_tokens=job["max_new_tokens"],
                stop=strings,
            )
            for stop, strings in job["stops"][name].items()
        }  # fmt: skip
        model.close()
        found[name] = {
            "outputs": {
                stop: {key: asdict(one) for key, one in texts.items()}
                for stop, texts in outputs.items()
            },
            "tokens": get_tokenizer(folder)(job["texts"])["input_ids"],
            "processes": len(processes_left()),
        }
    Path(out).write_text(json.dumps(found), "utf-8")


def processes_left(seconds: int = 60) -> list:
    """The processes of closed models that do not end within so many seconds."""
    deadline = time.monotonic() + seconds
    while (left := multiprocessing.active_children()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


if __name__ == "__main__":  # vLLM's own process imports this file
    main(*sys.argv[1:])
