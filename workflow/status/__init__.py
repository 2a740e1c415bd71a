"""How far a study is, what it takes, and whether a process works on it."""
