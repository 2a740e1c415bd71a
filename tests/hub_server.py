"""A small server that answers as the hub does, for what asks which commits and files it has."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = {
    "config.json": 10,
    "tokenizer.json": 200,
    "model.safetensors": 5000,
    "original/model.safetensors": 7000,
    "pytorch_model.bin": 5000,
}
DATA = {
    "README.md": 1,
    "data/te/te_clean_0000.jsonl.gz": 300,
    "data/te/te_clean_0001.jsonl.gz": 400,
    "data/te/te_noisy_0000.jsonl.gz": 900,
}
REPOSITORIES = {
    "models/org/model": MODEL,
    "models/org/gated": MODEL,
    "models/org/accepted": MODEL,
    "models/org/pickled": {"config.json": 1, "tokenizer.json": 1, "pytorch_model.bin": 1},
    "datasets/org/data": DATA,
    "datasets/org/script": {"script.py": 1, "README.md": 1},
}
PARQUET = "refs/convert/parquet"
# What stands in the way of a request, once each: name of a repository -> statuses.
FAULTS: dict[str, list[int]] = {}
# Repositories whose branch has moved to another commit.
MOVED: dict[str, str] = {}


class Hub(BaseHTTPRequestHandler):
    """`/api/{models,datasets}/<name>[/revision/<revision>]` and `…/auth-check`."""

    seen: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self):
        path = self.path.partition("?")[0].removeprefix("/api/")
        path = unquote(path)
        self.seen.append((path, self.headers.get("Authorization")))
        name, _, rest = (
            path.replace("/auth-check", "#auth").replace("/revision/", "#").partition("#")
        )
        if FAULTS.get(name):
            self.answer(FAULTS[name].pop(0), headers={"Retry-After": "7"})
        elif name not in REPOSITORIES:
            self.answer(401 if "private" in name else 404, "RepoNotFound")
        elif rest == "auth":
            refused = name.endswith("gated")
            self.answer(403 if refused else 200, "GatedRepo" if refused else None, {})
        elif rest not in ("", "main", PARQUET, COMMIT):
            self.answer(404, "RevisionNotFound")
        else:
            files = [{"rfilename": one, "size": size} for one, size in REPOSITORIES[name].items()]
            gated = "manual" if name.endswith(("gated", "accepted")) else False
            content = {
                "id": name.split("/", 1)[1],
                "sha": MOVED.get(name, COMMIT) if rest != COMMIT else COMMIT,
                "gated": gated,
                "siblings": files,
            }
            self.answer(200, None, content)

    def answer(self, status, code=None, content=None, headers=None):
        body = json.dumps(content or {"error": code}).encode()
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        if code:
            self.send_header("X-Error-Code", code)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def serving():
    """The address of the server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
