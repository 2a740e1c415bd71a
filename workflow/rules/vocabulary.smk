# Stage 3, vocabulary: the tokenizer that takes the source's over. Each entry of vocabularies.yaml is
# of one rule: expanded, trained anew, or taken from another model.

VOCABULARY_FILES = {
    "tokenizer": f"{RESULTS}/vocabulary/{VOCABULARY}/tokenizer.json",
    "settings": f"{RESULTS}/vocabulary/{VOCABULARY}/tokenizer_config.json",
    "extra_files": f"{RESULTS}/vocabulary/{VOCABULARY}/extra_files.zip",
    "vocabulary": f"{RESULTS}/vocabulary/{VOCABULARY}/vocabulary.json",
    "card": f"{RESULTS}/vocabulary/{VOCABULARY}/card.json",
}
VOCABULARY_LOG = f"{RESULTS}/logs/vocabulary/{VOCABULARY}.log"


rule expand_vocabulary:
    input:
        source=rules.prepare_source.output.card,
        train=rules.prepare_corpus.output.train,
    output:
        **VOCABULARY_FILES,
    log:
        VOCABULARY_LOG,
    wildcard_constraints:
        vocabulary=STUDY.vocabularies_of("expand"),
    cache: SHARED
    priority: 90
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        job=lambda wildcards: job(STUDY, "expand_vocabulary", wildcards),
    message:
        "Building vocabulary {wildcards.vocabulary} of {wildcards.source} for {wildcards.language}"
    shell:
        "python scripts/expand_vocabulary.py {params.job:q} > {log:q} 2>&1"


rule train_vocabulary:
    input:
        source=rules.prepare_source.output.card,
        train=rules.prepare_corpus.output.train,
    output:
        **VOCABULARY_FILES,
    log:
        VOCABULARY_LOG,
    wildcard_constraints:
        vocabulary=STUDY.vocabularies_of("train"),
    cache: SHARED
    priority: 90
    resources:
        mem_mb=lambda wildcards, attempt: 8000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        job=lambda wildcards: job(STUDY, "train_vocabulary", wildcards),
    message:
        "Training vocabulary {wildcards.vocabulary} for {wildcards.language}, to replace that of {wildcards.source}"
    shell:
        "python scripts/train_vocabulary.py {params.job:q} > {log:q} 2>&1"


rule take_vocabulary:
    input:
        source=rules.prepare_source.output.card,
        train=rules.prepare_corpus.output.train,
        tokenizer=lambda wildcards: STUDY.tokenizer_inputs(wildcards),
    output:
        **VOCABULARY_FILES,
    log:
        VOCABULARY_LOG,
    wildcard_constraints:
        vocabulary=STUDY.vocabularies_of("take"),
    priority: 90
    params:
        job=lambda wildcards: job(STUDY, "take_vocabulary", wildcards),
    message:
        "Taking vocabulary {wildcards.vocabulary} for {wildcards.language}, to replace that of {wildcards.source}"
    shell:
        "python scripts/take_vocabulary.py {params.job:q} > {log:q} 2>&1"
