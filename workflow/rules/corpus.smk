# Stage 2, corpus: training text, held-out text and task data of each language and each group.


rule prepare_corpus:
    input:
        lambda wildcards: STUDY.inputs("prepare_corpus", wildcards),
    output:
        STUDY.card("prepare_corpus"),
    log:
        STUDY.log("prepare_corpus"),
    priority: 100
    localrule: True
    params:
        job=lambda wildcards: STUDY.job("prepare_corpus", wildcards),
    message:
        "Preparing the texts of {wildcards.language}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/prepare_corpus.py" {params.job:q} > {log:q} 2>&1'


rule mix_corpora:
    input:
        lambda wildcards: STUDY.inputs("mix_corpora", wildcards),
    output:
        STUDY.card("mix_corpora"),
    log:
        STUDY.log("mix_corpora"),
    priority: 100
    localrule: True
    params:
        job=lambda wildcards: STUDY.job("mix_corpora", wildcards),
    message:
        "Mixing the texts of {wildcards.language}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/mix_corpora.py" {params.job:q} > {log:q} 2>&1'


rule prepare_samples:
    input:
        lambda wildcards: STUDY.inputs("prepare_samples", wildcards),
    output:
        STUDY.card("prepare_samples"),
    log:
        STUDY.log("prepare_samples"),
    priority: 100
    localrule: True
    params:
        job=lambda wildcards: STUDY.job("prepare_samples", wildcards),
    message:
        "Preparing the samples {wildcards.samples} of {wildcards.language}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/prepare_samples.py" {params.job:q} > {log:q} 2>&1'


rule mix_samples:
    input:
        lambda wildcards: STUDY.inputs("mix_samples", wildcards),
    output:
        STUDY.card("mix_samples"),
    log:
        STUDY.log("mix_samples"),
    priority: 100
    localrule: True
    params:
        job=lambda wildcards: STUDY.job("mix_samples", wildcards),
    message:
        "Mixing the samples {wildcards.samples} of {wildcards.language}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/mix_samples.py" {params.job:q} > {log:q} 2>&1'


rule answer_samples:
    input:
        lambda wildcards: STUDY.inputs("answer_samples", wildcards),
    output:
        STUDY.card("answer_samples"),
    log:
        STUDY.log("answer_samples"),
    priority: 100
    resources:
        **STUDY.resources("answer_samples"),
        gpu=1,
    params:
        job=lambda wildcards: STUDY.job("answer_samples", wildcards),
    message:
        "Answering the samples {wildcards.samples} of {wildcards.language}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python -m lexigraft.gpus {resources.gpu} python "$LEXIGRAFT/scripts/answer_samples.py" {params.job:q} > {log:q} 2>&1'


ruleorder: mix_samples > answer_samples > prepare_samples


rule prepare_examples:
    input:
        lambda wildcards: STUDY.inputs("prepare_examples", wildcards),
    output:
        STUDY.card("prepare_examples"),
    log:
        STUDY.log("prepare_examples"),
    priority: 100
    localrule: True
    params:
        job=lambda wildcards: STUDY.job("prepare_examples", wildcards),
    message:
        "Preparing the examples of {wildcards.task} ({wildcards.part})"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/prepare_examples.py" {params.job:q} > {log:q} 2>&1'


rule prepare_test_set:
    input:
        lambda wildcards: STUDY.inputs("prepare_test_set", wildcards),
    output:
        STUDY.card("prepare_test_set"),
    log:
        STUDY.log("prepare_test_set"),
    priority: 100
    localrule: True
    params:
        job=lambda wildcards: STUDY.job("prepare_test_set", wildcards),
    message:
        "Preparing the test set of {wildcards.task} ({wildcards.part})"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/prepare_test_set.py" {params.job:q} > {log:q} 2>&1'


# Separate from prepare_corpus: a new test set then invalidates neither the text nor what depends on it.
rule count_tests:
    input:
        lambda wildcards: STUDY.inputs("count_tests", wildcards),
    output:
        STUDY.card("count_tests"),
    log:
        STUDY.log("count_tests"),
    localrule: True
    params:
        job=lambda wildcards: STUDY.job("count_tests", wildcards),
    message:
        "Searching the training text of {wildcards.language} for the tests of {wildcards.task}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/count_tests.py" {params.job:q} > {log:q} 2>&1'
