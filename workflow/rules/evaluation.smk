# Stage 7, evaluation: all tasks of the study on every cell, learned metrics on their predictions, and
# tokenizers without a model.


# If its data is unavailable, the card states it, and the task's records state why they have no score.
rule prepare_benchmark:
    input:
        lambda wildcards: STUDY.inputs("prepare_benchmark", wildcards),
    output:
        STUDY.card("prepare_benchmark"),
    log:
        STUDY.log("prepare_benchmark"),
    priority: 100
    localrule: True
    params:
        job=lambda wildcards: STUDY.job("prepare_benchmark", wildcards),
    message:
        "Preparing the benchmark {wildcards.benchmark}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/prepare_benchmark.py" {params.job:q} > {log:q} 2>&1'


rule evaluate:
    input:
        lambda wildcards: STUDY.inputs("evaluate", wildcards),
    output:
        STUDY.card("evaluate"),
    log:
        STUDY.log("evaluate"),
    resources:
        **STUDY.resources("evaluate"),
        gpu=1,
    params:
        job=lambda wildcards: STUDY.job("evaluate", wildcards),
    message:
        "Evaluating {wildcards.language} {wildcards.vocabulary} {wildcards.initializer} {wildcards.strategy} seed {wildcards.seed}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python -m lexigraft.gpus {resources.gpu} python "$LEXIGRAFT/scripts/evaluate.py" {params.job:q} > {log:q} 2>&1'


rule evaluate_checkpoint:
    input:
        lambda wildcards: STUDY.inputs("evaluate_checkpoint", wildcards),
    output:
        STUDY.card("evaluate_checkpoint"),
    log:
        STUDY.log("evaluate_checkpoint"),
    resources:
        **STUDY.resources("evaluate_checkpoint"),
        gpu=1,
    params:
        job=lambda wildcards: STUDY.job("evaluate_checkpoint", wildcards),
    message:
        "Evaluating {wildcards.language} {wildcards.vocabulary} {wildcards.initializer} {wildcards.strategy} seed {wildcards.seed}, checkpoint {wildcards.checkpoint}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python -m lexigraft.gpus {resources.gpu} python "$LEXIGRAFT/scripts/evaluate.py" {params.job:q} > {log:q} 2>&1'


# Runs without other jobs in parallel: on this machine it takes all cores.
rule measure_speed:
    input:
        lambda wildcards: STUDY.inputs("measure_speed", wildcards),
    output:
        STUDY.card("measure_speed"),
    log:
        STUDY.log("measure_speed"),
    threads: lambda wildcards: workflow.cores
    resources:
        **STUDY.resources("measure_speed"),
        gpu=1,
    params:
        job=lambda wildcards: STUDY.job("measure_speed", wildcards),
    message:
        "Measuring the speed of {wildcards.language} {wildcards.vocabulary} {wildcards.initializer} {wildcards.strategy} seed {wildcards.seed}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python -m lexigraft.gpus {resources.gpu} python "$LEXIGRAFT/scripts/evaluate.py" {params.job:q} > {log:q} 2>&1'


rule prepare_metric:
    input:
        lambda wildcards: STUDY.inputs("prepare_metric", wildcards),
    output:
        STUDY.card("prepare_metric"),
    log:
        STUDY.log("prepare_metric"),
    localrule: True
    params:
        job=lambda wildcards: STUDY.job("prepare_metric", wildcards),
    message:
        "Preparing the metric {wildcards.metric}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/prepare_metric.py" {params.job:q} > {log:q} 2>&1'


# One job for many cells: loading a metric takes longer than scoring a cell.
rule score_predictions:
    input:
        lambda wildcards: STUDY.inputs("score_predictions", wildcards),
    output:
        STUDY.card("score_predictions"),
    log:
        STUDY.log("score_predictions"),
    resources:
        **STUDY.resources("score_predictions"),
        gpu=1,
    params:
        job=lambda wildcards: STUDY.job("score_predictions", wildcards),
    message:
        "Scoring predictions of {wildcards.source} in {wildcards.language} with {wildcards.metric}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python -m lexigraft.gpus {resources.gpu} python "$LEXIGRAFT/scripts/score_predictions.py" {params.job:q} > {log:q} 2>&1'


rule measure_fragmentation:
    input:
        lambda wildcards: STUDY.inputs("measure_fragmentation", wildcards),
    output:
        STUDY.card("measure_fragmentation"),
    log:
        STUDY.log("measure_fragmentation"),
    resources:
        **STUDY.resources("measure_fragmentation"),
    params:
        job=lambda wildcards: STUDY.job("measure_fragmentation", wildcards),
    message:
        "Measuring how {wildcards.vocabulary} of {wildcards.source} tokenizes {wildcards.language}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/measure_fragmentation.py" {params.job:q} > {log:q} 2>&1'


rule measure_tokenizer:
    input:
        lambda wildcards: STUDY.inputs("measure_tokenizer", wildcards),
    output:
        STUDY.card("measure_tokenizer"),
    log:
        STUDY.log("measure_tokenizer"),
    localrule: True
    params:
        job=lambda wildcards: STUDY.job("measure_tokenizer", wildcards),
    message:
        "Measuring how the tokenizer {wildcards.tokenizer} tokenizes {wildcards.language}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/measure_fragmentation.py" {params.job:q} > {log:q} 2>&1'


rule measure_alignment:
    input:
        lambda wildcards: STUDY.inputs("measure_alignment", wildcards),
    output:
        STUDY.card("measure_alignment"),
    log:
        STUDY.log("measure_alignment"),
    resources:
        **STUDY.resources("measure_alignment"),
    params:
        job=lambda wildcards: STUDY.job("measure_alignment", wildcards),
    message:
        "Measuring how {wildcards.initializer} aligns {wildcards.language} {wildcards.vocabulary} ({wildcards.fit})"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/measure_alignment.py" {params.job:q} > {log:q} 2>&1'
