# Stage 6, training: continual pre-training of the adapted model; only changed weights are stored.


rule train:
    input:
        lambda wildcards: STUDY.inputs("train", wildcards),
    output:
        STUDY.card("train"),
    log:
        STUDY.log("train"),
    priority: 50
    resources:
        **STUDY.resources("train"),
        gpu=STUDY.gpus("train"),
    params:
        job=lambda wildcards: STUDY.job("train", wildcards),
        launcher=lambda wildcards, resources: launcher(
            STUDY, wildcards.source, wildcards.strategy, resources.gpu
        ),
    message:
        "Training {wildcards.language} {wildcards.vocabulary} {wildcards.initializer} {wildcards.strategy} seed {wildcards.seed}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python -m lexigraft.gpus {resources.gpu} {params.launcher} "$LEXIGRAFT/scripts/train.py" {params.job:q} > {log:q} 2>&1'


rule export_cell:
    input:
        lambda wildcards: STUDY.inputs("export_cell", wildcards),
    output:
        STUDY.card("export_cell"),
    log:
        STUDY.log("export_cell"),
    resources:
        **STUDY.resources("export_cell"),
    params:
        job=lambda wildcards: STUDY.job("export_cell", wildcards),
    message:
        "Exporting {wildcards.language} {wildcards.vocabulary} {wildcards.initializer} {wildcards.strategy} seed {wildcards.seed}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/export.py" {params.job:q} > {log:q} 2>&1'
