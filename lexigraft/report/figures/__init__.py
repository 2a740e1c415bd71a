"""One file per figure; each declares `KIND`, and `draw(study, look)`."""
