# Stage 7, evaluation: all tasks of the study on every cell, learned metrics on their predictions, and
# tokenizers without a model. For the vocabulary `source`, the card of `vocabulary.tokenizer` is that of
# prepare_source.
evaluation = of_study("evaluation", STUDY)


# If its data is unavailable, the card states it, and the task's records state why they have no score.
rule prepare_benchmark:
    input:
        files=local_files(evaluation.benchmark_settings),
    output:
        card="<results>/benchmarks/{benchmark}/card.json",
    log:
        "<logs>/benchmarks/{benchmark}.log",
    priority: 100
    localrule: True
    params:
        job=job(
            "prepare_benchmark",
            version=1,
            settings=evaluation.benchmark_settings,
            # The job reads and completes the list of commits of data sets on the hub in this folder.
            outputs={"results": STUDY.results},
            state=evaluation.benchmark_state,
        ),
    message:
        "Preparing the benchmark {wildcards.benchmark}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/prepare_benchmark.py" {params.job:q} > {log:q} 2>&1'


# Studies may run different tasks on the same cell, so the card is named after the study.
rule evaluate:
    input:
        cell=rules.train.output.card,
        # What the tasks read: cards of prepare_corpus, prepare_examples and prepare_benchmark, and files
        # of prompts.
        read=tracked(evaluation.texts),
        files=local_files(evaluation.tasks),
    output:
        card="<results>/evaluation/{source}/{language}/{vocabulary}/{initializer}/{strategy}/seed-{seed}/card-<study>.json",
    log:
        "<logs>/evaluation/{source}/{language}/{vocabulary}/{initializer}/{strategy}/seed-{seed}.log",
    resources:
        mem_mb=per_attempt(source.memory("evaluation_mb")),
        runtime=per_attempt(evaluation.minutes),
        gpu=1,
    params:
        job=job(
            "evaluate",
            version=1,
            inputs={"read": evaluation.texts},
            cell=training.cell,
            tasks=evaluation.tasks,
        ),
    message:
        "Evaluating {wildcards.language} {wildcards.vocabulary} {wildcards.initializer} {wildcards.strategy} seed {wildcards.seed}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python -m lexigraft.gpus {resources.gpu} python "$LEXIGRAFT/scripts/evaluate.py" {params.job:q} > {log:q} 2>&1'


# A checkpoint is in the folder of its cell, and complete when the cell is.
use rule evaluate as evaluate_checkpoint with:
    output:
        card="<results>/evaluation/{source}/{language}/{vocabulary}/{initializer}/{strategy}/seed-{seed}/checkpoint-{checkpoint}/card-<study>.json",
    log:
        "<logs>/evaluation/{source}/{language}/{vocabulary}/{initializer}/{strategy}/seed-{seed}/checkpoint-{checkpoint}.log",
    params:
        job=job(
            "evaluate_checkpoint",
            version=1,
            inputs={"cell": evaluation.checkpoint, "read": evaluation.texts},
            cell=training.cell,
            tasks=evaluation.tasks,
            checkpoint=lambda wildcards: int(wildcards.checkpoint),
        ),
    message:
        "Evaluating {wildcards.language} {wildcards.vocabulary} {wildcards.initializer} {wildcards.strategy} seed {wildcards.seed}, checkpoint {wildcards.checkpoint}"


# Tasks that other jobs on the machine would distort. On this machine it takes all cores; its card has a
# folder of its own, since two processes never work in the same one.
use rule evaluate as measure_speed with:
    input:
        cell=rules.train.output.card,
        read=tracked(lambda wildcards: evaluation.texts(wildcards, True)),
        files=local_files(lambda wildcards: evaluation.tasks(wildcards, True)),
    output:
        card="<results>/evaluation/{source}/{language}/{vocabulary}/{initializer}/{strategy}/seed-{seed}/speed/card-<study>.json",
    log:
        "<logs>/evaluation/{source}/{language}/{vocabulary}/{initializer}/{strategy}/seed-{seed}/speed.log",
    # `workflow.cores` raises an error without --cores, as in `snakemake --report`.
    threads: lambda wildcards: workflow.resource_settings.cores or 1
    resources:
        mem_mb=per_attempt(source.memory("evaluation_mb")),
        runtime=per_attempt(lambda wildcards: evaluation.minutes(wildcards, True)),
        gpu=1,
    params:
        job=job(
            "measure_speed",
            version=1,
            inputs={"read": lambda wildcards: evaluation.texts(wildcards, True)},
            outputs={"records": evaluation.records},
            cell=training.cell,
            tasks=lambda wildcards: evaluation.tasks(wildcards, True),
        ),
    message:
        "Measuring the speed of {wildcards.language} {wildcards.vocabulary} {wildcards.initializer} {wildcards.strategy} seed {wildcards.seed}"


rule prepare_metric:
    output:
        card="<results>/metrics/{metric}/card.json",
    log:
        "<logs>/metrics/{metric}.log",
    localrule: True
    params:
        job=job(
            "prepare_metric",
            version=1,
            settings=evaluation.metric_settings,
            inputs={"python": STUDY.metrics_python},
            metric=lambda wildcards: wildcards.metric,
            state=evaluation.metric_state,
        ),
    message:
        "Preparing the metric {wildcards.metric}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/prepare_metric.py" {params.job:q} > {log:q} 2>&1'


# One job for many cells: loading a metric takes longer than scoring a cell.
rule score_predictions:
    input:
        metric=rules.prepare_metric.output.card,
        predictions=evaluation.predictions,
    output:
        card="<results>/learned/{metric}/{source}/{language}/card-<study>.json",
    log:
        "<logs>/learned/{metric}/{source}/{language}.log",
    resources:
        mem_mb=per_attempt(
            lambda wildcards: STUDY.metrics[wildcards.metric].resources.scoring_mb
        ),
        runtime=per_attempt(evaluation.scoring_minutes),
        gpu=1,
    params:
        job=job(
            "score_predictions",
            version=1,
            settings=lambda wildcards: STUDY.metrics[wildcards.metric],
            inputs={"metric": evaluation.metric_card, "python": STUDY.metrics_python},
            unlisted=["predictions"],
            outputs={"records": f"{STUDY.results}/evaluation"},
            metric=lambda wildcards: wildcards.metric,
            cells=evaluation.scored_cells,
            versions=evaluation.metric_versions,
        ),
    message:
        "Scoring predictions of {wildcards.source} in {wildcards.language} with {wildcards.metric}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python -m lexigraft.gpus {resources.gpu} python "$LEXIGRAFT/scripts/score_predictions.py" {params.job:q} > {log:q} 2>&1'


rule measure_fragmentation:
    input:
        source=rules.prepare_source.output.card,
        tokenizer=vocabulary.tokenizer,
        corpus=rules.prepare_corpus.output.card,
    output:
        card="<results>/evaluation/{source}/{language}/{vocabulary}/fragmentation/card.json",
    log:
        "<logs>/evaluation/{source}/{language}/{vocabulary}/fragmentation.log",
    resources:
        mem_mb=per_attempt(2000),
        runtime=per_attempt(20),
    params:
        job=job(
            "measure_fragmentation",
            version=1,
            cell=lambda wildcards: dict(wildcards.items()),
        ),
    message:
        "Measuring how {wildcards.vocabulary} of {wildcards.source} tokenizes {wildcards.language}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/measure_fragmentation.py" {params.job:q} > {log:q} 2>&1'


# A tokenizer of the registry, which no cell uses.
rule measure_tokenizer:
    input:
        corpus=rules.prepare_corpus.output.card,
        package=lambda wildcards: source.package_of(
            STUDY.tokenizers[wildcards.tokenizer]
        ),
        files=local_files(lambda wildcards: STUDY.tokenizers[wildcards.tokenizer]),
    output:
        card="<results>/fragmentation/{tokenizer}/{language}/card.json",
    log:
        "<logs>/fragmentation/{tokenizer}/{language}.log",
    localrule: True
    params:
        job=job(
            "measure_tokenizer",
            version=1,
            settings=lambda wildcards: STUDY.tokenizers[wildcards.tokenizer],
            tokenizer=lambda wildcards: wildcards.tokenizer,
            language=lambda wildcards: wildcards.language,
        ),
    message:
        "Measuring how the tokenizer {wildcards.tokenizer} tokenizes {wildcards.language}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/measure_fragmentation.py" {params.job:q} > {log:q} 2>&1'


rule measure_alignment:
    input:
        source=rules.prepare_source.output.card,
        tokenizer=vocabulary.tokenizer,
        # The fit that the wildcard `fit` names, since no cell is measured.
        initialization=rules.initialize.output.card,
        corpus=rules.prepare_corpus.output.card,
        encoder=tracked(evaluation.alignment_encoder),
    output:
        card="<results>/evaluation/{source}/{language}/{vocabulary}/{initializer}/alignment/{fit}/card.json",
    log:
        "<logs>/evaluation/{source}/{language}/{vocabulary}/{initializer}/alignment/{fit}.log",
    resources:
        mem_mb=per_attempt(source.memory("initialization_mb")),
        runtime=per_attempt(20),
    params:
        job=job(
            "measure_alignment",
            version=1,
            settings=lambda wildcards: STUDY.settings.alignment,
            inputs={"encoder": evaluation.alignment_encoder},
            cell=lambda wildcards: dict(wildcards.items()),
            seed=seed("evaluation", "{language}", "alignment"),
        ),
    message:
        "Measuring how {wildcards.initializer} aligns {wildcards.language} {wildcards.vocabulary} ({wildcards.fit})"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/measure_alignment.py" {params.job:q} > {log:q} 2>&1'
