"""The description of the pipeline: one `Stage` per rule, which defines everything about its jobs.

This is plain Python, like all of `workflow`, since the Snakefile is parsed again in every job, and
a study may have ten thousand cells.
"""

from workflow.stages import cells, measuring, report, texts  # noqa: F401  (they declare stages)
from workflow.stages.stage import STAGES, Output, Resources, Stage
from workflow.stages.study import Job, Study

__all__ = ["STAGES", "Job", "Output", "Resources", "Stage", "Study"]
