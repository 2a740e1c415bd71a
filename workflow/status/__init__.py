"""The progress and the cost of a study, and whether a process is working on it."""
