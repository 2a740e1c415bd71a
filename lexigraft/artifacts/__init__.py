"""What jobs leave behind: cards, completion records, checksums, and outputs written whole."""
