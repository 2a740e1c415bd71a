"""A logger plugin of Snakemake that prints each planned job: `--dry-run --logger jobs`.

One JSON object per job and line on the standard output, errors on the standard error. Snakemake
finds plugins by the names of packages on the Python path; `workflow/state.py` adds this folder.
"""

import json
import logging
import sys

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent


class LogHandler(LogHandlerBase):
    """Prints what Snakemake says of each job."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def emit(self, record: logging.LogRecord) -> None:
        """Print a job, or an error."""
        facts = vars(record)
        if facts.get("event") == LogEvent.JOB_INFO:
            job = {
                "rule": facts["rule_name"],
                "message": facts["rule_msg"] or "",
                "wildcards": dict(facts["wildcards"] or {}),
                "outputs": [str(path) for path in facts["output"] or ()],
                "inputs": [str(path) for path in facts["input"] or ()],
                "log": [str(path) for path in facts["log"] or ()],
                "resources": {
                    name: value
                    for name, value in facts["resources"].items()
                    if isinstance(value, int)
                },
                "command": facts["shellcmd"] or "",
            }
            print(json.dumps(job))
        elif record.levelno >= logging.ERROR:
            print(record.getMessage(), file=sys.stderr)
