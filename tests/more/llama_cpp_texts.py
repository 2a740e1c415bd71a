"""What llama.cpp makes of a model, in a process of its own: `llama_cpp_texts.py FILE JOB OUT`.

The job, a JSON file, has `texts` to tokenize, `prompts`, which are token ids, and `new_tokens` that
continue each. `OUT` has the `tokens` of the texts and the greedy `continuations`. All is asked of
llama.cpp's own server, which listens on this machine alone.
"""

import json
import sys
from pathlib import Path
from typing import Any

import requests
import xllamacpp


def main(file: str, job_file: str, out: str) -> None:
    job = json.loads(Path(job_file).read_text("utf-8"))
    settings = xllamacpp.CommonParams()
    settings.model.path = file
    settings.n_ctx, settings.n_parallel, settings.warmup = 1024, 1, False
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    # The cache is float16 by default.
    settings.cache_type_k = settings.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    server, session = xllamacpp.Server(settings), requests.Session()
    session.trust_env = False  # a proxy would be asked for this machine

    def ask(what: str, **given: Any) -> list[int]:
        answer = session.post(f"{server.listening_address}/{what}", json=given, timeout=300)
        answer.raise_for_status()
        return answer.json()["tokens"]

    greedy = {"temperature": 0, "n_predict": job["new_tokens"], "return_tokens": True}
    found = {
        "tokens": [ask("tokenize", content=text, add_special=True) for text in job["texts"]],
        "continuations": [ask("completion", prompt=ids, **greedy) for ids in job["prompts"]],
    }
    Path(out).write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
