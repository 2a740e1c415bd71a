"""What the hub says of an asset, asked of a small server that answers as the hub does."""

import pytest

from lexigraft.source.hub_check import (
    GATED,
    MISSING,
    NO_ANSWER,
    OK,
    UNUSABLE,
    HubAsset,
    ask_hub,
)
from tests.hub_server import COMMIT, FAULTS, Hub, serving


@pytest.fixture(scope="module")
def endpoint():
    with serving() as address:
        yield address


@pytest.fixture
def ask(endpoint, monkeypatch):
    """`ask(kind, name, …)`: the answer, and how long was waited before each further attempt."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    FAULTS.clear()
    Hub.seen.clear()

    def call(kind, name, revision=None, files=()):
        waited = []
        return ask_hub(HubAsset(kind, name, revision, files), endpoint, waited.append), waited

    return call


def test_a_pinned_model_with_its_files_is_ok_and_its_size_is_what_is_read(ask):
    answer, waited = ask("model", "org/model", COMMIT)
    assert (answer.state, answer.size, waited) == (OK, 5210, [])


def test_a_model_without_safe_weights_is_unusable(ask):
    answer, _ = ask("model", "org/pickled", COMMIT)
    assert answer.state == UNUSABLE and "*.safetensors" in answer.detail


@pytest.mark.fault(
    "network",
    "a gated model without a token, or without accepted terms",
    "a one-line error message gives the page with the terms and `hf auth login`",
)
def test_terms_that_were_not_accepted_are_named_with_what_to_do(ask, endpoint):
    answer, _ = ask("model", "org/gated", COMMIT)
    assert answer.state == GATED and f"{endpoint}/org/gated" in answer.detail
    assert ask("model", "org/accepted", COMMIT)[0].state == OK


@pytest.mark.fault(
    "network",
    "the hub answers 401, 403 or 404 for a model or data set when a study is checked",
    "it is reported as missing, or the message names its terms and `hf auth login`; no retries",
)
@pytest.mark.parametrize(
    ("kind", "name", "revision"),
    [("model", "org/none", None), ("data set", "org/private", None), ("model", "org/model", "v9")],
)
def test_what_is_not_there_is_missing(ask, kind, name, revision):
    answer, waited = ask(kind, name, revision)
    assert answer.state == MISSING and waited == []
    assert ("v9" in answer.detail) == (revision == "v9")


@pytest.mark.fault(
    "network",
    "the hub is busy (429, 503)",
    "the request is repeated after the delay that the hub specifies",
)
def test_a_busy_hub_is_asked_again_when_it_says(ask):
    FAULTS["models/org/model"] = [429, 503, 429]
    answer, waited = ask("model", "org/model", COMMIT)
    assert answer.state == OK and waited == [7, 7, 7]


@pytest.mark.fault(
    "network",
    "the hub keeps failing (500)",
    "the request is sent five times; the result gives the status",
)
def test_a_hub_that_stays_broken_gives_no_answer(ask):
    FAULTS["models/org/model"] = [500] * 9
    answer, waited = ask("model", "org/model", COMMIT)
    assert (answer.state, len(waited)) == (NO_ANSWER, 4) and "500" in answer.detail


@pytest.mark.fault("network", "the hub is unreachable", "a one-line error message gives its URL")
def test_a_hub_that_is_not_reached_gives_no_answer():
    answer = ask_hub(HubAsset("model", "org/model"), "http://127.0.0.1:9", lambda _: None)
    assert answer.state == NO_ANSWER and "127.0.0.1:9" in answer.detail


def test_of_a_data_set_the_files_of_its_patterns_count(ask):
    answer, _ = ask("data set", "org/data", COMMIT, ("data/te/te_clean_*.jsonl.gz",))
    assert (answer.state, answer.size) == (OK, 700)
    answer, _ = ask("data set", "org/data", COMMIT, ("data/el/el_clean_*.jsonl.gz",))
    assert answer.state == UNUSABLE and "data/el" in answer.detail


@pytest.mark.fault(
    "network",
    "the hub answers 401, 403 or 404 for a model or data set when a study is checked",
    "it is reported as missing, or the message names its terms and `hf auth login`; no retries",
)
@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_without_a_reason_asks_for_a_token(ask, status):
    FAULTS["models/org/model"] = [status]
    answer, waited = ask("model", "org/model", COMMIT)
    assert answer.state in (GATED, MISSING) and "hf auth login" in answer.detail
    assert waited == []


def test_a_data_set_with_a_script_alone_is_unusable(ask):
    answer, _ = ask("data set", "org/script", COMMIT)
    assert answer.state == UNUSABLE and "refs/convert/parquet" in answer.detail


def test_the_user_s_token_is_sent(ask, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    ask("model", "org/model", COMMIT)
    assert {token for _, token in Hub.seen} == {"Bearer hf_secret"}
