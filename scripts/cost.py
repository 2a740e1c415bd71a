"""What a study will take, before it runs: python scripts/cost.py [STUDY_FILE], from the repository.

It plans as `snakemake -n` does, and looks at what finished jobs took. Nothing is run or written.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

# The grid knows where a study's files lie; it belongs to the workflow, not to the package.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lexigraft.errors import UserError
from workflow.config.registries import ROOT, load_registries, read_yaml, resolve
from workflow.costs import Planned, as_text, costs
from workflow.disk import sizes
from workflow.estimates import finished_in
from workflow.grid import Study


def main(config: str = "config/config.yaml") -> None:
    study = Study(resolve(read_yaml(Path(config)), load_registries(), require_files=False))
    known = finished_in(study.config, sizes(study.results))
    title = f"{study.name}: {len(study.cells)} cells"
    print(as_text(title, costs(study, planned(config), known)))


def planned(config: str) -> Iterator[Planned]:
    """The jobs that Snakemake would run, by its own plan."""
    from snakemake.api import SnakemakeApi
    from snakemake.settings.types import (
        ConfigSettings,
        OutputSettings,
        Quietness,
        ResourceSettings,
    )

    quiet = OutputSettings(quiet={Quietness.ALL}, dryrun=True, enable_file_logging=False)
    with SnakemakeApi(quiet) as api:
        flow = api.workflow(
            resource_settings=ResourceSettings(cores=1),
            config_settings=ConfigSettings(configfiles=[Path(config)]),
            snakefile=ROOT / "Snakefile",
        )
        flow.dag()
        # As its `--summary` does: Snakemake 9 has no public way to a plan but to print it.
        workflow = flow._workflow
        workflow._prepare_dag(forceall=False, ignore_incomplete=True, lock_warn_only=True)
        workflow._build_dag()
        order = {rule.name: number for number, rule in enumerate(workflow.rules)}
        for job in sorted(workflow.dag.needrun_jobs(), key=lambda job: order[job.rule.name]):
            if job.output:  # not `all`
                minutes = job.resources.get("runtime")
                yield Planned(
                    job.rule.name,
                    job.wildcards_dict,
                    int(job.resources.get("gpu", 0)),
                    minutes if isinstance(minutes, int) else None,
                )


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except UserError as error:
        sys.exit(f"error: {error}")
