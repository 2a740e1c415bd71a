"""What a study will take, before it runs: python scripts/cost.py [STUDY_FILE], in its folder.

It compares what the study asks for with what lies on disk, and looks at what finished jobs took.
LEXIGRAFT_DEVICE=H100 in the environment names the GPU to plan for. Nothing is run or written.
"""

import sys
from pathlib import Path

# The workflow knows where a study's files lie; it belongs to the repository, not to the package.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lexigraft.errors import UserError
from workflow.stages.study import open_study
from workflow.status.cost import as_text, costs, planned
from workflow.status.estimates import finished_in
from workflow.status.replacements import notice
from workflow.status.results_folder import sizes


def main(config: str = "config/config.yaml") -> None:
    study = open_study(config)
    known = finished_in(study, sizes(study.results))
    title = f"{study.name}: {len(study.cells)} cells"
    jobs = planned(study)
    print(as_text(title, costs(study, jobs, known), known.planning_device(study)))
    if replaced := notice(study, [job.output for job in jobs]):
        print(f"\n{replaced}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except UserError as error:
        sys.exit(f"error: {error}")
