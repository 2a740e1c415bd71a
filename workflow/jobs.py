"""What each rule's script is told: the job description of a file, as JSON.

Plain Python: the Snakefile is parsed again in every job.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from lexigraft.prefix import without_prefix
from workflow import cell_jobs, evaluation_jobs, text_jobs, vocabulary_jobs
from workflow.grid import Study


def job(study: Study, rule: str, wildcards: Mapping[str, str]) -> str:
    """The job description of one rule and its wildcards, as JSON text.

    One string holds all that the output depends on and Snakemake cannot see: the settings of
    the stage and the digest of its code. As a parameter it is compared as a whole, which a
    dict's or a list's values are not. Paths in it are below the study's prefix, if it has one.
    """
    text = json.dumps(described(study, rule, wildcards), ensure_ascii=False)
    return without_prefix(text, study.config["prefix"])


def described(study: Study, rule: str, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """The job description of one rule and its wildcards, as its script reads it."""
    return {"rule": rule, **_JOBS[rule](study, wildcards)}


_JOBS: dict[str, Callable[[Study, Mapping[str, str]], dict[str, Any]]] = {
    describe.__name__: describe
    for describe in (
        text_jobs.fetch_package,
        text_jobs.prepare_source,
        text_jobs.prepare_corpus,
        text_jobs.mix_corpora,
        text_jobs.prepare_samples,
        text_jobs.mix_samples,
        text_jobs.answer_samples,
        text_jobs.prepare_examples,
        text_jobs.prepare_asked,
        text_jobs.count_tests,
        vocabulary_jobs.expand_vocabulary,
        vocabulary_jobs.train_vocabulary,
        vocabulary_jobs.take_vocabulary,
        vocabulary_jobs.train_fasttext,
        vocabulary_jobs.train_glove,
        vocabulary_jobs.read_word_vectors,
        vocabulary_jobs.read_plm,
        cell_jobs.initialize,
        cell_jobs.train,
        cell_jobs.export_cell,
        evaluation_jobs.evaluate,
        evaluation_jobs.evaluate_checkpoint,
        evaluation_jobs.prepare_benchmark,
        evaluation_jobs.prepare_metric,
        evaluation_jobs.score_predictions,
        evaluation_jobs.measure_fragmentation,
        evaluation_jobs.measure_tokenizer,
        evaluation_jobs.measure_alignment,
        evaluation_jobs.build_report,
    )
}
