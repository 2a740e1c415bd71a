"""One file per table, with a function of its name that `items.table` declares."""
