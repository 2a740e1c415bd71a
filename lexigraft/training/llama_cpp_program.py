"""Tokenize and continue texts with llama.cpp: `llama_cpp_program.py MODEL.gguf JOB OUT`.

The job, a JSON file, has `texts` to tokenize, `prompts`, lists of token ids, and `new_tokens`, the
number of tokens that continue each. `OUT` receives the `tokens` of the texts and the greedy
`continuations`. This is a program because xllamacpp is not installed in lexigraft's environment.
"""

import json
import sys
from pathlib import Path
from typing import Any

import requests


def main(file: str, job_file: str, out: str) -> None:
    """Load the model, answer the job and write `out`."""
    import xllamacpp  # not in lexigraft's environment, where all modules can be imported

    job = json.loads(Path(job_file).read_text("utf-8"))
    settings = xllamacpp.CommonParams()
    settings.model.path = file
    settings.n_ctx, settings.n_parallel, settings.warmup = 1024, 1, False
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    # The cache is float16 by default.
    settings.cache_type_k = settings.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    server, session = xllamacpp.Server(settings), requests.Session()
    session.trust_env = False  # no proxy for requests to this machine

    def request(endpoint: str, **fields: Any) -> list[int]:
        answer = session.post(f"{server.listening_address}/{endpoint}", json=fields, timeout=300)
        answer.raise_for_status()
        return answer.json()["tokens"]

    greedy = {"temperature": 0, "n_predict": job["new_tokens"], "return_tokens": True}
    result = {
        "tokens": [request("tokenize", content=text, add_special=True) for text in job["texts"]],
        "continuations": [request("completion", prompt=ids, **greedy) for ids in job["prompts"]],
    }
    Path(out).write_text(json.dumps(result), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
