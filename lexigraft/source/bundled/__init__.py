"""Models and text inside packages of PyPI and npm, which the default study needs."""
