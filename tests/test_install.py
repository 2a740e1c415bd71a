"""uv takes over what pip is configured with, or leaves the work to pip."""

import os
import runpy
import zipfile

import pytest

from lexigraft.installation import ROOT

SCRIPT = ROOT / "scripts" / "install.py"


@pytest.fixture
def script():
    return runpy.run_path(str(SCRIPT))


@pytest.fixture
def pip_configured(monkeypatch, tmp_path):
    """Nothing configures pip but one file, and variables that a test sets."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)

    def configure(text):
        (tmp_path / "pip.conf").write_text(text, encoding="utf-8")
        monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))

    return configure


def test_the_environment_and_the_section_of_install_go_before_the_rest(
    script, pip_configured, monkeypatch
):
    pip_configured(
        "[global]\nfind-links = /a\n    /b\nindex-url = https://x/simple\ntimeout = 5\n"
        "[install]\nindex-url = https://y/simple\n[freeze]\ntimeout = 9\n"
    )
    monkeypatch.setenv("PIP_FIND_LINKS", "/c /d")
    settings = script["pip_settings"]()
    assert settings["find-links"] == "/c /d"
    assert (settings["index-url"], settings["timeout"]) == ("https://y/simple", "5")


def test_every_setting_has_its_form_in_uv(script):
    arguments, variables = script["uv_settings"](
        {
            "find-links": "\n/wheels\nhttps://w",
            "index-url": "https://x",
            "extra-index-url": "https://y\nhttps://z",
            "no-index": "true",
            "cert": "/ca.pem",
            "no-input": "1",
        }
    )
    assert arguments == ["--no-index"]
    assert variables == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": "/wheels,https://w",
        "UV_DEFAULT_INDEX": "https://x",
        "UV_INDEX": "https://y https://z",
        "SSL_CERT_FILE": "/ca.pem",
    }
    assert script["uv_settings"]({"no-index": "0"})[0] == []


@pytest.fixture
def wheels(tmp_path):
    """A folder with the wheel of a package."""
    info, folder = "tiny_example-1.0.dist-info", tmp_path / "wheels"
    folder.mkdir()
    files = {
        "tiny_example.py": "VALUE = 1\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: tiny-example\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / "tiny_example-1.0-py3-none-any.whl", "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return folder


def test_pip_installs_where_uv_fails(script, pip_configured, wheels, tmp_path):
    pip_configured(f"[global]\nno-index = true\nfind-links = {wheels.as_uri()}\n")
    main = script["main"]
    main.__globals__["find_uv"] = lambda: "/bin/false"
    assert main("--target", str(tmp_path / "packages"), "tiny-example==1.0") == 0
    assert (tmp_path / "packages" / "tiny_example.py").read_text() == "VALUE = 1\n"
