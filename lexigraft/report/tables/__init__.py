"""One file per table; each declares `KIND`, and `build(study)`."""
