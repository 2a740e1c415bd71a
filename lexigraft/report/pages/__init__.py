"""One file per page, with a function of its name that `items.page` declares."""
