"""Downloads from a hub that refuses, is busy, or breaks off: hub and connection are real."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from lexigraft.errors import UserError
from lexigraft.source.hub import resolve

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {"config.json": b"{}" * 20, "model.safetensors": bytes(range(250)) * 8}
SPEC = {"hub": "org/name", "revision": COMMIT}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with one model; `answer` is a status and a code that it gives instead.

    A file that is `cut` ends in the middle. `sent` are the files whose content was asked for.
    """
    from huggingface_hub import constants

    state = SimpleNamespace(answer=None, cut=None, sent=[])

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.partition("?")[0]
            if state.answer:
                self.send(state.answer[0], b"", **{"X-Error-Code": state.answer[1]})
            elif path == f"/api/models/org/name/tree/{COMMIT}":
                listed = [
                    {"type": "file", "path": name, "size": len(content), "oid": name}
                    for name, content in FILES.items()
                ]
                self.send(200, json.dumps(listed).encode())
            else:
                self.send_file(path.rpartition("/")[2])

        do_HEAD = do_GET

        def send_file(self, name):
            content = FILES[name]
            if self.command == "GET":
                state.sent.append(name)
            sent = content[: len(content) // 2] if name == state.cut else content
            headers = {"ETag": f'"{name}"', "X-Repo-Commit": COMMIT}
            self.send(200, sent, len(content), **headers)

        def send(self, status, content, size=None, **headers):
            self.send_response(status)
            headers["Content-Length"] = str(len(content) if size is None else size)
            for key, value in headers.items():
                if value:
                    self.send_header(key, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    address = f"http://127.0.0.1:{server.server_port}"
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between attempts
    yield state
    server.shutdown()
    server.server_close()


def refusal() -> str:
    with pytest.raises(UserError) as error:
        resolve(SPEC)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.fault(
    "network",
    "the hub answers 401, 403, 404, 429, 500 or 503 when a model is downloaded",
    "a one-line error message names the model, the status and what to do",
)
@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (401, "RepoNotFound", "no such repository, or it is private; run `hf auth login`"),
        (401, None, "hf auth login"),
        (403, "GatedRepo", "access is restricted; accept its terms"),
        (403, None, "the hub refuses access (403); run `hf auth login`"),
        (404, "RepoNotFound", "no such repository"),
        (404, "RevisionNotFound", "no such revision"),
        (429, None, "the hub returned status 429; try again later"),
        (500, None, "the hub returned status 500; try again later"),
        (503, None, "the hub returned status 503; try again later"),
    ],
)
def test_each_answer_of_a_hub_that_refuses_is_one_line(hub, status, code, message):
    hub.answer = (status, code)
    said = refusal()
    assert said.startswith(f"source hub org/name at revision {COMMIT}: ")
    assert message in said


@pytest.mark.fault(
    "network",
    "the connection breaks while a model is downloaded",
    "a one-line error message; the next run downloads the missing files, and all are intact",
)
def test_a_download_that_breaks_off_is_one_line_and_goes_on_next_time(hub):
    hub.cut = "model.safetensors"
    assert "the download was interrupted" in refusal()
    hub.cut = None
    hub.sent.clear()
    folder, commit = resolve(SPEC)
    assert commit == COMMIT
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES
    assert hub.sent == ["model.safetensors"]
