"""One file per figure; each declares `KIND`, and `draw(study, summary, look)`."""
