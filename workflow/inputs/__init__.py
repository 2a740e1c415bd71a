"""What rules read and compute with: input and parameter functions, one module per stage.

Each public function takes a study and the wildcards of a job, and returns an output of another job,
a path, or settings. `rule` has what the rule files call themselves. All is plain Python without
slow imports, since the Snakefile is parsed again in every job, and a study may have ten thousand
cells.
"""
