#!/bin/sh
# Runs a job's command in the environment that it needs. The Snakefile sets LEXIGRAFT (this
# repository) and LEXIGRAFT_BIN (the folder of the Python that runs Snakemake):
#
#   job.sh python "$LEXIGRAFT/scripts/train.py" …
#
# Snakemake's `shell.prefix` would also change the rules of a Snakefile that uses this workflow.

# Put that Python, or one that has imported the slow libraries already
# (workflow/preloaded_python.py), and the package of this repository first on the path.
export PATH="${LEXIGRAFT_PRELOADED:+$LEXIGRAFT_PRELOADED:}$LEXIGRAFT_BIN:$PATH"
export PYTHONPATH="$LEXIGRAFT${PYTHONPATH:+:$PYTHONPATH}"
# Waiting threads do not spin: on a shared machine, spinning takes up to ten times as long.
export OMP_WAIT_POLICY=PASSIVE
# Keep large arrays for reuse instead of returning them to the kernel at each training step, which
# costs a fifth of the time.
export MALLOC_MMAP_THRESHOLD_=4000000000 MALLOC_TRIM_THRESHOLD_=8000000000
export MALLOC_TOP_PAD_=268435456
exec "$@"
