# Stage 4, auxiliary: static vectors of tokens, for the initializers that name them. The vocabulary is
# the cell's, or `source` for vectors of the source's own tokens.

AUXILIARY = f"{RESULTS}/auxiliary/{VOCABULARY}/{{auxiliary}}"
AUXILIARY_LOG = f"{RESULTS}/logs/auxiliary/{VOCABULARY}/{{auxiliary}}.log"


rule train_fasttext:
    input:
        tokenizer=lambda wildcards: STUDY.tokenizer_card(wildcards),
        train=rules.prepare_corpus.output.train,
    output:
        vectors=f"{AUXILIARY}/vectors.safetensors",
        card=f"{AUXILIARY}/card.json",
    log:
        AUXILIARY_LOG,
    wildcard_constraints:
        auxiliary=STUDY.auxiliaries_of("fasttext"),
    cache: SHARED
    priority: 85
    resources:
        # With character n-grams 2.4 GB for these alone.
        mem_mb=lambda wildcards, attempt: 5000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        job=lambda wildcards: job(STUDY, "train_fasttext", wildcards),
    message:
        "Training {wildcards.auxiliary} on {wildcards.language} {wildcards.vocabulary} of {wildcards.source}"
    shell:
        "python scripts/train_fasttext.py {params.job:q} > {log:q} 2>&1"


rule train_glove:
    input:
        tokenizer=lambda wildcards: STUDY.tokenizer_card(wildcards),
        train=rules.prepare_corpus.output.train,
    output:
        vectors=f"{AUXILIARY}/vectors.safetensors",
        card=f"{AUXILIARY}/card.json",
    log:
        AUXILIARY_LOG,
    wildcard_constraints:
        auxiliary=STUDY.auxiliaries_of("glove"),
    cache: SHARED
    priority: 85
    threads: 4
    resources:
        # 40 bytes for each pair of tokens that stand near each other: 30,000 sentences of 40 tokens
        # have 36 million of them at most.
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 120 * attempt,
    params:
        job=lambda wildcards: job(STUDY, "train_glove", wildcards),
    message:
        "Training {wildcards.auxiliary} on {wildcards.language} {wildcards.vocabulary} of {wildcards.source}"
    shell:
        "python scripts/train_glove.py {params.job:q} > {log:q} 2>&1"


rule read_word_vectors:
    input:
        tokenizer=lambda wildcards: STUDY.tokenizer_card(wildcards),
        words=lambda wildcards: STUDY.word_vectors_inputs(wildcards),
    output:
        vectors=f"{AUXILIARY}/vectors.safetensors",
        card=f"{AUXILIARY}/card.json",
    log:
        AUXILIARY_LOG,
    wildcard_constraints:
        auxiliary=STUDY.auxiliaries_of("word-vectors"),
    cache: SHARED
    priority: 85
    resources:
        mem_mb=lambda wildcards, attempt: STUDY.word_vectors_memory(wildcards, attempt),
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        job=lambda wildcards: job(STUDY, "read_word_vectors", wildcards),
    message:
        "Reading {wildcards.auxiliary} of {wildcards.language} for {wildcards.vocabulary} of {wildcards.source}"
    shell:
        "python scripts/read_word_vectors.py {params.job:q} > {log:q} 2>&1"


rule read_plm:
    input:
        tokenizer=lambda wildcards: STUDY.tokenizer_card(wildcards),
    output:
        vectors=f"{AUXILIARY}/vectors.safetensors",
        card=f"{AUXILIARY}/card.json",
    log:
        AUXILIARY_LOG,
    wildcard_constraints:
        auxiliary=STUDY.auxiliaries_of("plm"),
    cache: SHARED
    priority: 85
    resources:
        # Of the model only its input matrix is read.
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        job=lambda wildcards: job(STUDY, "read_plm", wildcards),
    message:
        "Reading {wildcards.auxiliary} of {wildcards.language} for {wildcards.vocabulary} of {wildcards.source}"
    shell:
        "python scripts/read_plm.py {params.job:q} > {log:q} 2>&1"
