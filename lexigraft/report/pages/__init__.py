"""One file per page; each declares `KIND`, and `build(study, title, caveats)`."""
