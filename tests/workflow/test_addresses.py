"""A login or a token in an address is shown nowhere, and no study is planned with one."""

import logging
import runpy
import sys
from copy import deepcopy
from json import dumps
from pathlib import Path

import pytest

from lexigraft import UserError
from lexigraft.addresses import has_secret, without_secrets
from lexigraft.bundled.packages import ask_package
from lexigraft.corpus.readers import read_sentences
from lexigraft.source.download import PartialFile, ask_file, download
from lexigraft.source.hub_check import HubAsset, ask_hub, ask_web
from tests.web_server import serving
from workflow.config.registries import resolve

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
SECRET = "hunter2"
WITH_SECRETS = [
    "https://user:hunter2@host/te.txt",
    "https://hunter2@host/te.txt",
    "https://user:hun/hunter2@host/te.txt",
    "https://user:12@hunter2@host/te.txt",
    "s3://user:hunter2@bucket/te.txt",
    "zip://*.txt::https://user:hunter2@host/te.zip",
    "https://host/te.txt?token=hunter2",
    "https://host/te.txt?a=1&access_token=hunter2&b=2",
    "https://host/te.txt?X-Amz-Credential=a&X-Amz-Signature=hunter2",
    "https://host/te.txt?AWSAccessKeyId=a&Signature=hunter2",
    "https://host/te.txt?sv=2024&sig=hunter2",
    "https://host/te.txt?apiKey=hunter2",
    "https://host/te.txt?x-functions-key=hunter2",
    "https://host/te.txt?password=hunter2",
    "https://host/te.txt;auth=hunter2",
    "https://host/te.txt#access_token=hunter2",
]
WITHOUT = [
    "https://host:8080/te.txt",
    "https://host/@scope/te.txt",
    "https://host/download?file=te.txt&author=me",
    "https://host/te.txt?keyword=monkey",
    "hf://datasets/owner/name@main/te.txt",
    "data/key=token/te.txt",
]


@pytest.mark.parametrize("address", WITH_SECRETS)
def test_an_address_with_a_secret_is_known_and_shown_without_it(address):
    assert has_secret(address)
    for text in (address, f"{address}: not found", f"see ('{address}'), then", f"<{address}>"):
        assert SECRET not in without_secrets(text)
        assert SECRET not in str(UserError(text))
    assert without_secrets(f"{address} is gone").endswith(" is gone")


@pytest.mark.parametrize("before", ["?", "?a=1&", ";", "#"])
def test_parameters_that_hold_secrets_are_told_from_others(before):
    secret = (
        "token", "access_token", "auth-token", "X-Amz-Security-Token", "hfToken", "token_id",
        "api_key", "api-key", "apikey", "apiKey", "access_key", "AWSAccessKeyId", "secret",
        "client_secret", "subscription-key", "password", "passwd", "pwd", "sig", "signature",
        "X-Amz-Signature", "X-Amz-Credential", "auth", "authorization", "jwt", "session_id",
    )  # fmt: skip
    public = (
        "code", "lang_code", "key", "keyword", "keys", "monkey", "tokenizer", "tokenization",
        "tokenizer_name", "max_tokens", "tokens", "author", "authors", "design", "file", "name",
        "format", "lang",
    )  # fmt: skip
    for wanted, names in ((True, secret), (False, public)):
        for name in names:
            for spelled in (name, name.upper()):
                address = f"https://host/te.txt{before}{spelled}=te"
                assert has_secret(address) == wanted, address


# Keys of a study under which an address may stand.
PLACES = [
    ("languages", "telugu", "text", "data_files"),
    ("languages", "telugu", "english", "data_files"),
    ("languages", "telugu", "samples", "mine", "text", "data_files"),
    ("tasks", "mine", "examples", "test", "te", "data_files"),
    ("corpora", "mine", "data_files"),
    ("files", "mine", "url"),
    ("sources", "mine", "folder"),
    ("report", "items", "title"),
]


@pytest.mark.bad_input(
    "hostile",
    "a login or a token in an address",
    "rejected; no message and no log shows it",
)
@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_no_study_is_planned_with_a_secret(place, miniature, registries):
    config, address = deepcopy(miniature), WITH_SECRETS[0]
    *path, last = place
    entry = config
    for key in path:
        entry = entry.setdefault(key, {})
    entry[last] = address if last != "data_files" else [address]
    with pytest.raises(UserError) as error:
        resolve(config, registries)
    assert SECRET not in str(error.value) and "\n" not in str(error.value)


# ---- what is shown of addresses that other places provide: the library, servers, the environment


@pytest.fixture
def server(monkeypatch):
    """Files at an address with a login and a token; broken connections are made anew at once."""
    from datasets import config

    from lexigraft.source import download

    monkeypatch.setattr(download, "_pause", lambda attempt: 0.0)
    for name in ("STREAMING_READ_RETRY_INTERVAL", "STREAMING_OPEN_RETRY_INTERVAL"):
        monkeypatch.setattr(config, name, 0)  # five seconds, twenty times
    with serving() as files:
        host = files.address.removeprefix("http://")
        yield files, lambda name: f"http://user:{SECRET}@{host}/{name}?token={SECRET}"


def shown(capsys, caplog, call):
    """What a call raises, returns, prints and logs."""
    caplog.set_level(logging.DEBUG, "lexigraft")
    said = []
    try:
        said.append(str(call()))
    except UserError as error:
        said.append(str(error))
    out, err = capsys.readouterr()
    return "\n".join([*said, out, err, *caplog.messages])


@pytest.mark.bad_input(
    "hostile",
    "a login or a token in an address",
    "rejected; no message and no log shows it",
)
@pytest.mark.parametrize(
    "fault", ["missing", "broken", "busy", "endless", "empty", "not UTF-8", "changed", "damaged"]
)
def test_no_fault_of_a_server_shows_a_secret(server, fault, tmp_path, capsys, caplog):
    files, address = server
    name = "te.txt.gz" if fault == "damaged" else "te.txt"
    if fault != "missing":
        content = {"empty": b"", "not UTF-8": b"\xff\n"}.get(fault, b"line\n" * 2000)
        files.contents |= {f"/{name}": content, "/te.jsonl": content}
    files.breaks = {"broken": [0] * 99, "changed": [100]}.get(fault, [])
    files.statuses = [503] * 99 if fault == "busy" else []
    files.framing = "neither" if fault == "endless" else "length"
    files.version = None
    url = address(name)
    text = {"loader": "datasets", "name": "text", "split": "train", "data_files": url}
    rows = text | {"name": "json", "data_files": address("te.jsonl")}
    for (call,) in (
        (lambda: download(url, tmp_path / "file") and None,),
        (lambda: list(PartialFile(url, tmp_path / "part").more(lambda _: None)) and None,),
        (lambda: list(read_sentences(text)) and None,),
        (lambda: list(read_sentences(rows)) and None,),
        (lambda: ask_web(url).detail,),
        (lambda: ask_file(url, lambda _: None).bytes,),
    ):
        assert SECRET not in shown(capsys, caplog, call)


def test_the_doctor_shows_no_secret_of_the_hub_s_mirror(monkeypatch):
    from huggingface_hub import constants

    from lexigraft.commands.doctor import check_hub

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", f"http://user:{SECRET}@127.0.0.1:9")
    said = str(list(check_hub()))
    assert "http://127.0.0.1:9 cannot be reached" in said and SECRET not in said


def test_a_job_shows_no_secret_in_its_log(server, tmp_path, monkeypatch, capfd):
    files, address = server
    files.contents["/te.txt"] = b"line\n" * 2000
    files.breaks, files.version = [100, 100], None
    text = {"loader": "datasets", "name": "text", "split": "train", "data_files": address("te.txt")}
    entry = {"name": "Telugu", "code": "te", "text": text, "english": text}
    entry |= {"minimum_characters": 1, "repair": [], "train_sentences": None}
    job = {"rule": "prepare_corpus", "settings": entry, "inputs": {}, "seed": [0],
           "outputs": {"folder": str(tmp_path / "out")}}  # fmt: skip
    (tmp_path / "job.json").write_text(dumps(job))
    monkeypatch.setattr(sys, "argv", ["prepare_corpus.py", str(tmp_path / "job.json")])
    with pytest.raises(SystemExit):
        runpy.run_path(str(SCRIPTS / "prepare_corpus.py"), run_name="__main__")
    out, err = capfd.readouterr()
    assert "127.0.0.1" in err and SECRET not in out + err


@pytest.mark.parametrize("address", WITHOUT)
def test_other_addresses_may_be_named_in_studies(address):
    assert not has_secret(address)
    assert without_secrets(address).startswith(address.partition("?")[0])


def test_the_refusal_names_the_key(miniature, registries):
    config = deepcopy(miniature)
    text = {"loader": "datasets", "name": "text", "split": "train", "data_files": WITH_SECRETS[0]}
    config["languages"]["telugu"]["text"] = text
    with pytest.raises(
        UserError, match=r"languages\.telugu\.text\.data_files: the address contains"
    ):
        resolve(config, registries)


def test_no_host_that_is_not_reached_shows_a_secret(monkeypatch, capsys, caplog):
    nowhere = f"http://user:{SECRET}@127.0.0.1:9"
    monkeypatch.setenv("PIP_INDEX_URL", nowhere)
    monkeypatch.setenv("npm_config_registry", nowhere)
    pypi = {"registry": "pypi", "name": "toy", "version": "1.0", "sha256": "0" * 64}
    asset = HubAsset("model", "owner/name", None)
    for call in (
        lambda: ask_file(f"{nowhere}/te.txt?token={SECRET}", lambda _: None),
        lambda: ask_web(f"{nowhere}/te.txt?token={SECRET}").detail,
        lambda: ask_package(pypi),
        lambda: ask_package(pypi | {"registry": "npm"}),
        lambda: ask_hub(asset, nowhere, lambda _: None),
    ):
        assert SECRET not in shown(capsys, caplog, call)
