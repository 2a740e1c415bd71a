"""One file per figure, with a function of its name that `items.figure` declares."""
