"""One initializer per file: `mean_of_all.py` registers the method `mean-of-all`."""
