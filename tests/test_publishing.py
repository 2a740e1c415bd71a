"""Uploading a model, to a small server that takes commits as the hub does."""

import base64
import json
import re
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
import yaml
from typer.testing import CliRunner

from lexigraft.commands.app import app
from lexigraft.errors import UserError
from lexigraft.model_card import ModelFacts, model_card
from lexigraft.publishing import published_files, push

WRITES, READS = "hf_writes", "hf_reads"


class Hub(BaseHTTPRequestHandler):
    """Repositories that `WRITES` may create and commit to, in the space `me` alone."""

    repositories: ClassVar[dict[str, dict[str, bytes]]] = {}
    private: ClassVar[dict[str, bool]] = {}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in (WRITES, READS):
            self.answer(401, {"error": "Invalid token"})
        elif self.path == "/api/validate-yaml":
            self.answer(200, {})
        elif self.path == "/api/repos/create":
            asked = json.loads(body)
            space = asked["organization"] or "me"
            if token == READS or space != "me":
                self.answer(403, {"error": "no right"})
                return
            name = f"{space}/{asked['name']}"
            known = name in self.repositories
            self.repositories.setdefault(name, {})
            self.private[name] = asked.get("visibility") == "private"
            self.answer(409 if known else 200, {"url": f"http://{self.headers['Host']}/{name}"})
        else:
            name, action = re.fullmatch(
                "/api/models/(.+)/(preupload|commit)/main", self.path
            ).groups()
            getattr(self, action)(self.repositories[name], body)

    def do_GET(self):
        self.answer(404, {"error": "not there"})

    def preupload(self, held, body):
        files = [
            {"path": one["path"], "uploadMode": "regular", "shouldIgnore": False}
            for one in json.loads(body)["files"]
        ]
        self.answer(200, {"files": files})

    def commit(self, held, body):
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                held[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        url = f"http://{self.headers['Host']}/me/adapted/commit/1"
        self.answer(200, {"commitUrl": url, "commitOid": "1"})

    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def endpoint():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def hub(endpoint, monkeypatch):
    """The server, reached with a token that may write."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setenv("HF_TOKEN", WRITES)
    Hub.repositories.clear()
    return Hub


@pytest.fixture
def model(roberta_folder, roberta_tokenizer, tmp_path):
    """An exported model, and beside it what a study and a user leave in such a folder."""
    folder = tmp_path / "model"
    shutil.copytree(roberta_folder, folder)
    facts = ModelFacts(
        "org/name", language="Telugu", code="te", license="mit", data_sets=["org/te"]
    )
    (folder / "README.md").write_text(model_card(facts, roberta_tokenizer, masked=True), "utf-8")
    for name in ("card.json", "job.json", ".lock", "notes.txt", "optimizer.pt"):
        (folder / name).write_text("/home/me/secret")
    (folder / "checkpoints").mkdir()
    return folder


def run(*arguments):
    result = CliRunner().invoke(app, ["push", *map(str, arguments)])
    if isinstance(result.exception, UserError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


UPLOADED = {
    "README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
}  # fmt: skip


def test_the_model_its_tokenizer_and_its_card_are_uploaded_and_nothing_else(hub, model):
    said = run(model, "me/adapted")
    held = hub.repositories["me/adapted"]
    assert set(held) == UPLOADED
    for name in UPLOADED - {"README.md"}:
        assert held[name] == (model / name).read_bytes()
    assert not hub.private["me/adapted"]
    assert "/me/adapted" in said.splitlines()[-1]


def test_chat_templates_and_the_module_of_a_tokenizer_are_uploaded_and_no_other_code(hub, model):
    templates = {"chat_template.jinja", "additional_chat_templates/tool_use.jinja"}
    (model / "additional_chat_templates").mkdir()
    for name in ("exported_tokenizer.py", "other.py", *templates):
        (model / name).write_text("")
    run(model, "me/adapted")
    expected = UPLOADED | templates | {"exported_tokenizer.py"}
    assert set(hub.repositories["me/adapted"]) == expected


def test_the_card_has_what_the_hub_reads_and_loads_the_model_from_there(hub, model):
    assert push(model, "adapted", private=True).endswith("/me/adapted")  # of one's own space
    card = hub.repositories["me/adapted"]["README.md"].decode()
    matter = yaml.safe_load(card.split("---")[1])
    assert (matter["license"], matter["base_model"]) == ("mit", "org/name")
    assert (matter["language"], matter["datasets"]) == (["te"], ["org/te"])
    assert 'AutoModelForMaskedLM.from_pretrained("me/adapted")' in card
    assert hub.private["me/adapted"]


def test_a_dry_run_lists_files_and_sizes_and_needs_neither_token_nor_network(model, monkeypatch):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    said = run(model, "me/adapted", "--dry-run")
    sizes = published_files(model)
    assert set(sizes) == UPLOADED
    for name, size in sizes.items():
        assert re.search(
            rf"^{re.escape(name)} +{size / 1e3:,.1f} kB$|^{name} +0.[1-9] MB$", said, re.M
        )
    assert "Nothing was uploaded" in said and "front matter" not in said


def test_what_the_card_lacks_is_said(model):
    card = (model / "README.md").read_text("utf-8").replace("license: mit\n", "")
    (model / "README.md").write_text(card.replace("base_model: org/name\n", ""), "utf-8")
    assert "no license and no base_model; add" in run(model, "me/adapted", "--dry-run")


@pytest.mark.parametrize(
    ("token", "name", "message"),
    [
        (
            READS,
            "me/adapted",
            r"push me/adapted: the token has no write permission there \(403\); run `hf auth",
        ),
        (WRITES, "others/adapted", r"the token has no write permission there \(403\)"),
        ("hf_old", "me/adapted", "the hub does not recognize the token; run `hf auth login`"),
        (WRITES, "a/b/c", "'a/b/c' is not a valid repository name"),
    ],
)
def test_what_the_hub_refuses_is_one_line(token, name, message, hub, model, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(UserError, match=message) as error:
        push(model, name)
    assert "\n" not in str(error.value)
    assert hub.repositories == {}


def test_a_hub_that_is_not_reached_is_one_line(hub, model, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(
        UserError, match=r"http://127.0.0.1:9 cannot be reached \(\w+\); check the n"
    ):
        push(model, "me/adapted")


def test_without_a_token_or_offline_nothing_is_tried(hub, model, monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    with pytest.raises(UserError, match="there is no hub token; run `hf auth login`"):
        push(model, "me/adapted")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set"):
        push(model, "me/adapted")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (shutil.rmtree, "there is no such folder"),
        (
            lambda folder: (folder / "model.safetensors").unlink(),
            "no \\*.safetensors; specify a folder",
        ),
        (lambda folder: (folder / "README.md").unlink(), "no README.md; specify a folder"),
        (
            lambda folder: (folder / "README.md").write_text("# A model"),
            "its front matter, between",
        ),
        (lambda folder: (folder / "changed.safetensors").touch(), "a cell of a study, which only"),
    ],
)
def test_a_folder_that_is_no_model_is_refused(change, message, model):
    change(model)
    with pytest.raises(UserError, match=message):
        run(model, "me/adapted", "--dry-run")
