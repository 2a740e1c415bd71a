#!/bin/sh
# Runs a job's command in the environment that it needs; the Snakefile sets LEXIGRAFT, this
# repository, and LEXIGRAFT_BIN, the folder of the Python that runs Snakemake:
#
#   job.sh python "$LEXIGRAFT/scripts/train.py" …
#
# Not `shell.prefix` of Snakemake, which would change rules of a Snakefile that uses this workflow.

# That Python, and the package of this repository, whichever come first on the path.
export PATH="$LEXIGRAFT_BIN:$PATH"
export PYTHONPATH="$LEXIGRAFT${PYTHONPATH:+:$PYTHONPATH}"
# Threads that wait do not spin: on a shared machine that costs up to ten times.
export OMP_WAIT_POLICY=PASSIVE
# Large arrays are kept for reuse instead of going back to the kernel at each training step, which
# costs a fifth of the time.
export MALLOC_MMAP_THRESHOLD_=4000000000 MALLOC_TRIM_THRESHOLD_=8000000000
export MALLOC_TOP_PAD_=268435456
exec "$@"
