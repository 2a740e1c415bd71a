# Stage 5, initialization: a recipe over source tokens, or rows, for every new token.


rule initialize:
    input:
        lambda wildcards: STUDY.inputs("initialize", wildcards),
    output:
        STUDY.card("initialize"),
    log:
        STUDY.log("initialize"),
    priority: 80
    resources:
        **STUDY.resources("initialize"),
    params:
        job=lambda wildcards: STUDY.job("initialize", wildcards),
    message:
        "Initializing {wildcards.language} {wildcards.vocabulary} with {wildcards.initializer} ({wildcards.fit})"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/initialize.py" {params.job:q} > {log:q} 2>&1'


# Initializers that learn from the source model or its matrices run on the machine that trains it.
rule learn_initialization:
    input:
        lambda wildcards: STUDY.inputs("learn_initialization", wildcards),
    output:
        STUDY.card("learn_initialization"),
    log:
        STUDY.log("learn_initialization"),
    priority: 80
    resources:
        **STUDY.resources("learn_initialization"),
        gpu=1,
    params:
        job=lambda wildcards: STUDY.job("learn_initialization", wildcards),
    message:
        "Learning to initialize {wildcards.language} {wildcards.vocabulary} with {wildcards.initializer} ({wildcards.fit})"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python -m lexigraft.gpus {resources.gpu} python "$LEXIGRAFT/scripts/initialize.py" {params.job:q} > {log:q} 2>&1'
