# lexigraft: vocabulary adaptation of pretrained language models, as a grid of cached stages.
#
#   snakemake --cores 2                                 the default study (config/config.yaml)
#   snakemake --configfile config/studies/<study>.yaml  another study
#   snakemake --profile profiles/slurm                  on a cluster (docs/slurm.md)
#
# It runs from any folder (--snakefile) and as a module of another Snakefile (docs/running.md).
# A config defines what to run, a profile how and where. Rules are in workflow/rules, one file per
# stage; what depends on the study is computed by functions of workflow/inputs. The text of the rule
# files is also read by workflow/rule_files.py: the card, script and version of each rule. Local rules
# need the network or take about a second: they run where Snakemake runs, not as cluster jobs.
import os
import shlex
import sys
from functools import partial
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake.utils import min_version

min_version("9.27")
REPOSITORY = str(workflow.current_basedir)
if not os.path.isdir(REPOSITORY):
    raise WorkflowError(
        "lexigraft's Snakefile only works in a clone of its repository; use the one in a clone"
    )


# Import the packages next to this file even if others have the same names: `lexigraft` of another
# clone, installed in the environment and imported by a profile, or a folder `workflow` of the user.
# In an installed package this folder is inside the library's folder (lexigraft/installation.py).
sys.path.insert(0, REPOSITORY)
LIBRARY = f"{REPOSITORY}/lexigraft"
if not os.path.isdir(LIBRARY):
    LIBRARY = os.path.dirname(REPOSITORY)
for package, folder in (("lexigraft", LIBRARY), ("workflow", f"{REPOSITORY}/workflow")):
    if package in sys.modules and folder not in sys.modules[package].__path__:
        for module in [*sys.modules]:
            if f"{module}.".startswith(f"{package}."):
                del sys.modules[module]
from lexigraft.cells import CELL_PATH, NAME
from lexigraft.errors import UserError
from lexigraft.gpus import devices
from lexigraft.machine import setting
from lexigraft.plugins import load_plugins
from workflow.assets import lock_revisions
from workflow.config.checks import check_local_files
from workflow.config.registries import load_registries, resolve
from workflow.jobs import by_card, job_in_run
from workflow.preloaded_python import FEWEST_JOBS, start
from workflow.recipes import hint
from workflow import slurm, snakemake_patches
from workflow.inputs.report import command_arguments, in_report, report_files
from workflow.inputs.rule import describe_job, of_study, one_of, per_attempt, seed_of
from workflow.inputs.rule import local_files, tracked
from workflow.study import in_repository
from workflow.state import check_writable, failures, hold, replacement_notice

# Wildcards that are names of entries.
NAMES = "source language vocabulary initializer strategy auxiliary samples task".split()
NAMES += ["benchmark", "metric", "tokenizer", "package"]

if not workflow.config_settings.configfiles:

    configfile: in_repository("config/config.yaml")


try:
    if workflow.is_main_process:
        snakemake_patches.check_yaml(
            workflow.configfiles, sys.argv[1:], workflow.main_snakefile
        )
    STUDY = resolve(config, load_registries(), check=workflow.is_main_process)
    # Jobs need these too, wherever they run: the study's locations (docs/sharing.md) and how this
    # machine computes (docs/running.md). Neither is part of a job description.
    os.environ.update(STUDY.environment())
except UserError as error:
    raise WorkflowError(str(error)) from None


# The first page of Snakemake's own report.
report: "workflow/report/workflow.rst"


if workflow.is_main_process:
    # The arguments of `snakemake` that plan this study again, for commands that reports show.
    settings = workflow.config_settings
    snakefile = Path(workflow.main_snakefile)
    arguments = command_arguments(
        snakefile, settings.configfiles, settings.config_args, Path.cwd()
    )
    os.environ.update(LEXIGRAFT_SNAKEMAKE=shlex.join(arguments))
    # Before planning, which compares modification times.
    slurm.date_back_unrecorded(Path.cwd(), STUDY.name, STUDY.results)


# A dry run (-n) works without the data; a run does not.
onstart:
    snakemake_patches.stop_rescheduling(workflow.scheduler)
    if problem := slurm.missing_slurm(workflow.executor_plugin.name):
        raise WorkflowError(problem)
    if warning := slurm.leftover_jobs(Path.cwd()):
        logger.warning(warning)
    jobs = (job for job in workflow.dag.needrun_jobs() if job.output)
    planned = [job_in_run(job, STUDY.settings.prefix) for job in jobs]
    try:
        check_writable(STUDY.results)
        check_local_files(STUDY)
    except UserError as error:
        raise WorkflowError(f"{error}{hint(planned, STUDY.files)}") from None
    for plugin in load_plugins(STUDY.settings.plugins or ()):
        logger.warning(f"Plug-in {plugin}")
    replaced = replacement_notice(STUDY, by_card(planned))
    # Parameters are recomputed when their jobs start, so they include the commits locked here.
    for warning in (lock_revisions(STUDY, planned), replaced):
        if warning:
            logger.warning(warning)
    hold(STUDY)
    slurm.begin_submitting(workflow.executor_plugin.name, Path.cwd(), STUDY.name)
    snakemake_patches.interrupt_jobs_with_snakemake(workflow.executor_plugin.name)
    many = len(planned) >= FEWEST_JOBS and workflow.executor_plugin.name == "local"
    if many and setting("preload") is not False and not devices():
        start(REPOSITORY)


onsuccess:
    slurm.end_submitting()


onerror:
    slurm.end_submitting()
    # After pages of shell commands, what matters.
    for logged in log:
        for failure in failures(Path(logged).read_text("utf-8", "replace")):
            logger.error(f"error: {failure}")


# The description of a job for its script; rules name its parts (workflow/inputs/rule.py).
job = partial(describe_job, STUDY)
seed = partial(seed_of, STUDY)


# Variables of the paths in rules: <results>, <logs>, <packages> and <study>.
pathvars:
    **STUDY.path_variables,


wildcard_constraints:
    **dict.fromkeys(NAMES, NAME),
    seed=r"\d+",
    checkpoint=r"\d+",
    fit=r"all-seeds|seed-\d+",


# Read by scripts/job.sh. Shell commands of a module cannot use names of its Snakefile.
os.environ.update(LEXIGRAFT=REPOSITORY, LEXIGRAFT_BIN=str(Path(sys.executable).parent))


include: "workflow/rules/source.smk"
include: "workflow/rules/corpus.smk"
include: "workflow/rules/vocabulary.smk"
include: "workflow/rules/auxiliary.smk"
include: "workflow/rules/initialization.smk"
include: "workflow/rules/training.smk"
include: "workflow/rules/evaluation.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        rules.build_report.output,
