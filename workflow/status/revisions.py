"""Before a run: what its jobs read from the hub without a commit is looked up, and locked."""

from collections.abc import Iterable

from lexigraft.source.revision_lock import lock
from workflow.stages import Output, Study
from workflow.status.assets import hub_assets


def lock_revisions(study: Study, planned: Iterable[Output]) -> str:
    """Lock the commits of what planned jobs read from the hub; a warning of those not to be had.

    From then on the study has them in its settings. Data sets of lm-evaluation-harness are locked
    by the jobs that copy them.
    """
    assets = [one for one in hub_assets(study, planned) if not one.is_pinned]
    if not assets:
        return ""
    locked = lock(study.results, assets)
    study.take_commits()
    left = sorted({one.name for one in assets if one.key not in locked})
    if not left:
        return ""
    return (
        f"no commit is known of {', '.join(left)}: the hub does not say. What jobs find is read; "
        "the next run that finds a commit makes what they read anew"
    )
