#!/bin/sh
# Runs a job's command in the environment that it needs. The Snakefile sets LEXIGRAFT (this
# repository) and LEXIGRAFT_BIN (the folder of the Python that runs Snakemake):
#
#   job.sh python "$LEXIGRAFT/scripts/train.py" …
#
# Snakemake's `shell.prefix` would also change the rules of a Snakefile that uses this workflow.

# Put that Python and the package of this repository first on the path; before it a Python that has
# imported the slow libraries already (workflow/preloaded_python.py), while its folder exists and
# only this user can use it: `python` in any other folder may be somebody else's program.
PATH="$LEXIGRAFT_BIN:$PATH"
case "$(stat -c %u:%A -- "$LEXIGRAFT_PRELOADED" 2>/dev/null)" in
  "$(id -u)":drwx--[-S]---) PATH="$LEXIGRAFT_PRELOADED:$PATH" ;;
esac
export PATH
export PYTHONPATH="$LEXIGRAFT${PYTHONPATH:+:$PYTHONPATH}"
# Compiled code; by default torch takes it from a folder of a known name in the folder of temporary
# files, which another user may have created.
export TORCHINDUCTOR_CACHE_DIR="${TORCHINDUCTOR_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/torchinductor}"
# Waiting threads do not spin: on a shared machine, spinning takes up to ten times as long.
export OMP_WAIT_POLICY=PASSIVE
# Keep large arrays for reuse instead of returning them to the kernel at each training step, which
# costs a fifth of the time.
export MALLOC_MMAP_THRESHOLD_=4000000000 MALLOC_TRIM_THRESHOLD_=8000000000
export MALLOC_TOP_PAD_=268435456
exec "$@"
