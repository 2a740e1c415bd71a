"""Input from outside is data: none of it is executed, and no secret is written or sent."""

import ast
import http.server
import json
import os
import pickle
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from lexigraft import UserError
from tests.conftest import REPOSITORY, run_command

CODE = sorted(
    file
    for folder in ("lexigraft", "scripts", "workflow")
    for file in (REPOSITORY / folder).rglob("*.py")
)
UNPICKLING = {"pickle", "cPickle", "_pickle", "dill", "joblib", "cloudpickle", "shelve", "marshal"}
AUTO = {"from_pretrained", "from_config"}
TOKEN = "hf_" + "SecretOfTheUser" * 2


def unsafe(code: str) -> list[str]:
    """Calls and imports in a module that could run what a file or a config holds."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"import {name}" for name in names if name.split(".")[0] in UNPICKLING]
        elif isinstance(node, ast.Call) and not _is_safe(node):
            found.append(ast.unparse(node))
    return found


def _is_safe(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    options = {option.arg: ast.unparse(option.value) for option in call.keywords}
    of, _, called = name.rpartition(".")
    if "shell" in options and of == "subprocess":
        return False
    if name in ("eval", "exec", "os.system", "os.popen", "subprocess.getoutput"):
        return False
    if name == "torch.load":
        return options.get("weights_only") == "True"
    if name in ("np.load", "numpy.load"):
        return options.get("allow_pickle") == "False"
    if name == "yaml.load":
        return "SafeLoader" in ast.unparse(call.args[1])
    if called in ("extractall", "unpack_archive") or name in ("jinja2.Environment", "Environment"):
        return False
    if called in AUTO and of.rpartition(".")[2].startswith("Auto"):
        return options.get("trust_remote_code") == "False"
    return options.get("trust_remote_code", "False") == "False"


def test_no_code_runs_what_it_reads():
    found = {file: unsafe(file.read_text(encoding="utf-8")) for file in CODE}
    assert {file: calls for file, calls in found.items() if calls} == {}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from joblib import load",
        "torch.load(file)",
        "np.load(file)",
        "numpy.load(file, allow_pickle=True)",
        "yaml.load(text, yaml.Loader)",
        "subprocess.run(command, shell=True)",
        "os.system(command)",
        "eval(text)",
        "archive.extractall(folder)",
        "AutoTokenizer.from_pretrained(folder)",
        "transformers.AutoModel.from_config(config)",
        "load_model(folder, trust_remote_code=True)",
        "jinja2.Environment()",
        "Environment()",
    ],
)
def test_the_search_finds_what_it_looks_for(code):
    assert unsafe(code) != []


class Attack:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


@pytest.fixture
def attack(tmp_path):
    """A pickle; it has worked if `tmp_path / "pwned"` is there afterwards."""
    content = pickle.dumps(Attack(tmp_path / "pwned"))
    yield content
    assert not (tmp_path / "pwned").exists()


def test_the_attack_would_work(tmp_path):
    pickle.loads(pickle.dumps(Attack(tmp_path / "pwned")))  # noqa: S301 (that is the point)
    assert (tmp_path / "pwned").exists()


def read_source(folder: Path) -> None:
    from lexigraft.source.preparation import prepare_source

    prepare_source({"folder": str(folder), "kind": "masked"}, folder.parent / "source")


def read_plm(folder: Path) -> None:
    from lexigraft.source.matrices import read_input_matrix

    read_input_matrix(folder)


def read_encoder(folder: Path) -> None:
    from lexigraft.auxiliary.sentence_encoder import SentenceEncoder

    SentenceEncoder({"folder": str(folder)})


READERS = pytest.mark.parametrize("read", [read_source, read_plm, read_encoder])


@pytest.fixture
def model(tmp_path, roberta_folder) -> Path:
    """A model whose files a test may spoil."""
    import shutil

    return shutil.copytree(roberta_folder, tmp_path / "model")


@pytest.mark.bad_input(
    "hostile", "pickled weights", "never loaded; a one-line error message says how to convert them"
)
@READERS
def test_pickled_weights_are_not_read(read, model, attack):
    (model / "model.safetensors").unlink()
    (model / "pytorch_model.bin").write_bytes(attack)
    with pytest.raises(UserError):
        read(model)


@pytest.mark.bad_input(
    "hostile", "code in a model's repository", "never run; a one-line error message says so"
)
@READERS
def test_code_of_a_model_is_not_run(read, model, tmp_path):
    code = f"import os\nos.mkdir({str(tmp_path / 'pwned')!r})\nclass Config: pass\nModel = Config\n"
    (model / "code.py").write_text(code)
    config = json.loads((model / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "code.Config", "AutoModel": "code.Model"}
    (model / "config.json").write_text(json.dumps(config))
    read(model)  # by the class of transformers
    (model / "config.json").write_text(json.dumps(config | {"model_type": "mystery"}))
    with pytest.raises(UserError):
        read(model)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.bad_input(
    "hostile", "a pickle in a recipe", "never loaded; a one-line error message names the file"
)
@pytest.mark.parametrize("name", ["recipe.npz", "recipes.npz"])
def test_a_pickle_in_a_recipe_is_not_read(name, tmp_path):
    from lexigraft.initialization.storage import load_initialization

    held = np.array([Attack(tmp_path / "pwned")], dtype=object)
    np.savez(
        tmp_path / name, allow_pickle=True, **dict.fromkeys(("indices", "data", "shape"), held)
    )
    with pytest.raises(UserError, match="truncated or damaged"):
        load_initialization(tmp_path)
    assert not (tmp_path / "pwned").exists()


@pytest.fixture
def hub():
    """A hub that refuses all requests: its address, and the authorization that it received."""
    received: list[str] = []

    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            received.append(self.headers.get("Authorization", ""))
            self.send_response(403)
            self.send_header("X-Error-Message", "not for you")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    server.server_close()


@pytest.mark.bad_input(
    "hostile",
    "a failing request to the hub that carries a token",
    "the token is in no log, card or job file",
)
def test_the_token_of_the_hub_is_in_no_log_and_no_file(hub, tmp_path):
    address, received = hub
    out = tmp_path / "results/source/private"
    job = {
        "rule": "prepare_source",
        "settings": {"hub": "org/private"},
        "inputs": {},
        "outputs": {"folder": str(out)},
    }
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "HF_TOKEN": TOKEN,
        "HF_ENDPOINT": address,
        "HF_HOME": str(tmp_path / "cache"),
        "HF_HUB_OFFLINE": "0",
        "HF_DEBUG": "1",  # the hub's own library then logs its requests
        "NO_PROXY": "127.0.0.1",
    }
    result = run_command(
        [sys.executable, str(REPOSITORY / "scripts/prepare_source.py"), json.dumps(job)],
        env=environment,
    )
    assert f"Bearer {TOKEN}" in received  # it was available
    assert result.returncode == 1
    output = result.stdout + result.stderr
    assert "error: source hub org/private: " in output
    assert TOKEN not in output
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert out / "job.json" in written
    assert all(TOKEN.encode() not in file.read_bytes() for file in written)
