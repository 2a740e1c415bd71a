"""One kind of auxiliary per file: its options, what it reads and costs, how it is computed."""
