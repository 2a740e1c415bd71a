"""The implementation of `lexigraft adapt`: a study of one model and language is set up and run."""
