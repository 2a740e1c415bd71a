# Stage 3, vocabulary: the tokenizer that replaces the source's. Each entry of vocabularies.yaml belongs
# to one rule: expanded or pruned, trained from scratch, or taken from another model.


rule expand_vocabulary:
    input:
        lambda wildcards: STUDY.inputs("expand_vocabulary", wildcards),
    output:
        STUDY.card("expand_vocabulary"),
    log:
        STUDY.log("expand_vocabulary"),
    priority: 90
    resources:
        **STUDY.resources("expand_vocabulary"),
    params:
        job=lambda wildcards: STUDY.job("expand_vocabulary", wildcards),
    message:
        "Building vocabulary {wildcards.vocabulary} of {wildcards.source} for {wildcards.language}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/expand_vocabulary.py" {params.job:q} > {log:q} 2>&1'


rule train_vocabulary:
    input:
        lambda wildcards: STUDY.inputs("train_vocabulary", wildcards),
    output:
        STUDY.card("train_vocabulary"),
    log:
        STUDY.log("train_vocabulary"),
    priority: 90
    resources:
        **STUDY.resources("train_vocabulary"),
    params:
        job=lambda wildcards: STUDY.job("train_vocabulary", wildcards),
    message:
        "Training vocabulary {wildcards.vocabulary} for {wildcards.language}, to replace that of {wildcards.source}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/train_vocabulary.py" {params.job:q} > {log:q} 2>&1'


rule take_vocabulary:
    input:
        lambda wildcards: STUDY.inputs("take_vocabulary", wildcards),
    output:
        STUDY.card("take_vocabulary"),
    log:
        STUDY.log("take_vocabulary"),
    priority: 90
    localrule: True
    params:
        job=lambda wildcards: STUDY.job("take_vocabulary", wildcards),
    message:
        "Taking vocabulary {wildcards.vocabulary} for {wildcards.language}, to replace that of {wildcards.source}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/take_vocabulary.py" {params.job:q} > {log:q} 2>&1'
