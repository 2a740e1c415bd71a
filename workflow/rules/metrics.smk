# Stage 7, evaluation: learned metrics on finished predictions, in an environment of their own.


rule prepare_metric:
    output:
        card=f"{RESULTS}/metrics/{{metric}}/card.json",
    log:
        f"{RESULTS}/logs/metrics/{{metric}}.log",
    params:
        job=lambda wildcards: job(STUDY, "prepare_metric", wildcards),
    message:
        "Preparing the metric {wildcards.metric}"
    shell:
        "python scripts/prepare_metric.py {params.job:q} > {log:q} 2>&1"


rule score_predictions:
    input:
        # Predictions lie beside the record, which is written after them.
        record=rules.evaluate.output.record,
        metric=rules.prepare_metric.output.card,
    output:
        record=f"{RESULTS}/evaluation/{CELL}/{{task}}/run-{{run}}/learned/{{metric}}.json",
    log:
        f"{RESULTS}/logs/evaluation/{CELL}/{{task}}-{{run}}-{{metric}}.log",
    resources:
        gpu=1,
        mem_mb=lambda wildcards, attempt: STUDY.scoring_memory(
            wildcards.metric, attempt
        ),
        runtime=lambda wildcards, attempt: STUDY.scoring_minutes(
            wildcards.metric, attempt
        ),
    params:
        job=lambda wildcards: job(STUDY, "score_predictions", wildcards),
    message:
        "Scoring {wildcards.task} of {wildcards.language} {wildcards.vocabulary} {wildcards.initializer} {wildcards.strategy} seed {wildcards.seed} by {wildcards.metric}"
    shell:
        "python -m lexigraft.gpus {resources.gpu} python scripts/score_predictions.py {params.job:q} > {log:q} 2>&1"
