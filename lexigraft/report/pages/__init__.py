"""One file per page; each declares `KIND`, and `build(study, summary, title, caveats)`."""
