"""The loaders of the library, one per file, see `lexigraft.corpus.loader`."""
