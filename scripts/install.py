"""Install packages into the environment of the Python that runs it: `install.py ARGUMENTS`.

The arguments are those of `pip install`. uv installs in seconds what takes pip minutes; it is
installed from the package index first. If it is unavailable or fails, or if pip's configuration
cannot be translated for uv, pip installs the packages.
"""

import os
import shutil
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

UV = "uv==0.13.9"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
# uv ignores pip's settings: the equivalent variable of each, and the separator of several values.
# Without the user's index, unintended builds would be installed, such as torch's for GPUs, which
# take gigabytes.
_VARIABLES = {
    "find-links": ("UV_FIND_LINKS", ","),
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "constraint": ("UV_CONSTRAINT", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "proxy": ("ALL_PROXY", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
}
_NO_MATTER = {
    "cache-dir", "config-file", "disable-pip-version-check", "no-cache-dir", "no-color", "no-input",
    "no-python-version-warning", "no-warn-script-location", "prefer-binary", "progress-bar",
    "quiet", "require-virtualenv", "retries", "root-user-action", "verbose",
}  # fmt: skip


def pip_settings() -> dict[str, str]:
    """The options of `pip install` set in files and in the environment: option -> value."""
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=True)
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if section in found:
            found[section][option] = literal_eval(value)
    return found["global"] | found["install"] | found[":env:"]  # in pip's order


def uv_settings(settings: dict[str, str]) -> tuple[list[str], dict[str, str]] | None:
    """The same for uv: arguments and environment variables; None if one has no equivalent."""
    arguments, variables = [], {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # as pip does
    for option, value in settings.items():
        if option in _VARIABLES:
            variable, separator = _VARIABLES[option]
            variables[variable] = separator.join(value.split())
        elif option == "no-index":
            if value.lower() in ("1", "true", "yes", "on"):
                arguments.append("--no-index")
        elif option not in _NO_MATTER:
            return None
    return arguments, variables


def find_uv() -> str | None:
    """The uv of this environment, installed if necessary, or one on the PATH."""
    own = Path(sys.executable).with_name("uv")
    if not own.exists():
        subprocess.run([*PIP, "install", "--quiet", UV], stderr=subprocess.DEVNULL)
    return str(own) if own.exists() else shutil.which("uv")


def main(*arguments: str) -> int:
    """Install the packages and return the exit status."""
    taken_over = uv_settings(pip_settings())
    if taken_over is not None and (uv := find_uv()):
        options, variables = taken_over
        command = [uv, "pip", "install", "--quiet", "--python", sys.executable]
        # Variables that the user has set for uv take precedence.
        environment = variables | os.environ
        if subprocess.run([*command, *options, *arguments], env=environment).returncode == 0:
            return 0
        print("uv cannot install this; trying pip", file=sys.stderr)
    return subprocess.run([*PIP, "install", "--quiet", *arguments]).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
