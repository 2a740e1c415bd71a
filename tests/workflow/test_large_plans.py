"""Snakemake's modules remember the parameters of functions, and say the same."""

import gc
import inspect
from types import SimpleNamespace

import pytest
import snakemake.api  # noqa: F401 (its modules import each other, and begin here)
from snakemake import common, rules
from snakemake.dag import DAG
from snakemake.settings.types import OutputSettings, Quietness

from workflow.large_plans import (
    leave_jobs_unsaid,
    pass_over_environments,
    prepare_for_many_jobs,
)


@pytest.fixture(autouse=True)
def thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_snakemake_still_asks_where_it_is_answered():
    assert common.get_function_params is rules.get_function_params
    for function in (lambda wildcards, attempt: attempt, lambda wildcards: wildcards):
        assert common.get_function_params(function) == inspect.signature(function).parameters


def test_a_function_is_asked_once_and_another_of_the_same_form_too():
    asked = []

    def get_function_params(function):
        asked.append(function)
        return inspect.signature(function).parameters

    module = SimpleNamespace(get_function_params=get_function_params)
    prepare_for_many_jobs((module,))
    one, two = (lambda wildcards: 1), (lambda wildcards, attempt: 2)
    for _ in range(3):
        assert list(module.get_function_params(one)) == ["wildcards"]
        assert list(module.get_function_params(two)) == ["wildcards", "attempt"]
    assert asked == [one, two]
    prepare_for_many_jobs((module,))  # the Snakefile may be read twice in one process
    module.get_function_params(one)
    assert asked == [one, two]


@pytest.mark.parametrize(
    ("dryrun", "quiet", "said"),
    [
        (True, {Quietness.RULES}, False),
        (True, {Quietness.ALL}, False),
        (True, {Quietness.REASON}, True),
        (True, None, True),
        (False, {Quietness.ALL}, True),  # failures name their job by the same words
    ],
)
def test_jobs_are_put_into_words_unless_a_plan_is_not_to_name_them(dryrun, quiet, said):
    class Job:
        def log_info(self):
            return "words"

    leave_jobs_unsaid(Job, OutputSettings(dryrun=dryrun, quiet=quiet))
    assert (Job().log_info() == "words") is said


@pytest.mark.parametrize(("environments", "looks"), [((None, "env.yaml"), True), ((None,), False)])
def test_environments_are_looked_for_where_a_rule_has_one(environments, looks):
    class Dag:
        def __init__(self):
            self.jobs = [SimpleNamespace(rule=SimpleNamespace(conda_env=x)) for x in environments]
            self.looked = False

        def update_conda_envs(self):
            self.looked = True

    pass_over_environments(Dag)
    dag = Dag()
    dag.update_conda_envs()
    assert dag.looked is looks


def test_snakemake_looks_for_environments_where_it_is_kept_from_it():
    assert list(inspect.signature(DAG.update_conda_envs).parameters) == ["self"]
    assert isinstance(rules.Rule.conda_env, property)
