# Stage 4, auxiliary: static vectors of tokens, for the initializers that name them. The vocabulary is
# the cell's, or `source` for vectors of the source's own tokens.


rule train_fasttext:
    input:
        lambda wildcards: STUDY.inputs("train_fasttext", wildcards),
    output:
        STUDY.card("train_fasttext"),
    log:
        STUDY.log("train_fasttext"),
    priority: 85
    resources:
        **STUDY.resources("train_fasttext"),
    params:
        job=lambda wildcards: STUDY.job("train_fasttext", wildcards),
    message:
        "Training {wildcards.auxiliary} on {wildcards.language} {wildcards.vocabulary} of {wildcards.source}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/compute_vectors.py" {params.job:q} > {log:q} 2>&1'


rule train_glove:
    input:
        lambda wildcards: STUDY.inputs("train_glove", wildcards),
    output:
        STUDY.card("train_glove"),
    log:
        STUDY.log("train_glove"),
    priority: 85
    threads: 4
    resources:
        **STUDY.resources("train_glove"),
    params:
        job=lambda wildcards: STUDY.job("train_glove", wildcards),
    message:
        "Training {wildcards.auxiliary} on {wildcards.language} {wildcards.vocabulary} of {wildcards.source}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/compute_vectors.py" {params.job:q} > {log:q} 2>&1'


rule read_word_vectors:
    input:
        lambda wildcards: STUDY.inputs("read_word_vectors", wildcards),
    output:
        STUDY.card("read_word_vectors"),
    log:
        STUDY.log("read_word_vectors"),
    priority: 85
    resources:
        **STUDY.resources("read_word_vectors"),
    params:
        job=lambda wildcards: STUDY.job("read_word_vectors", wildcards),
    message:
        "Reading {wildcards.auxiliary} of {wildcards.language} for {wildcards.vocabulary} of {wildcards.source}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/compute_vectors.py" {params.job:q} > {log:q} 2>&1'


rule read_plm:
    input:
        lambda wildcards: STUDY.inputs("read_plm", wildcards),
    output:
        STUDY.card("read_plm"),
    log:
        STUDY.log("read_plm"),
    priority: 85
    resources:
        **STUDY.resources("read_plm"),
    params:
        job=lambda wildcards: STUDY.job("read_plm", wildcards),
    message:
        "Reading {wildcards.auxiliary} of {wildcards.language} for {wildcards.vocabulary} of {wildcards.source}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/compute_vectors.py" {params.job:q} > {log:q} 2>&1'


rule encode_tokens:
    input:
        lambda wildcards: STUDY.inputs("encode_tokens", wildcards),
    output:
        STUDY.card("encode_tokens"),
    log:
        STUDY.log("encode_tokens"),
    priority: 85
    resources:
        **STUDY.resources("encode_tokens"),
    params:
        job=lambda wildcards: STUDY.job("encode_tokens", wildcards),
    message:
        "Encoding the tokens of {wildcards.language} {wildcards.vocabulary} of {wildcards.source} with {wildcards.auxiliary}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/compute_vectors.py" {params.job:q} > {log:q} 2>&1'
