# Stage 2, corpus: training text, held-out text and task data of each language and each group.


rule prepare_corpus:
    input:
        lambda wildcards: STUDY.corpus_inputs(wildcards.language),
    output:
        train=f"{RESULTS}/corpus/{{language}}/train.txt",
        heldout=f"{RESULTS}/corpus/{{language}}/heldout.txt",
        english=f"{RESULTS}/corpus/{{language}}/english.txt",
        translation=f"{RESULTS}/corpus/{{language}}/tasks/translation.jsonl",
        summarization=f"{RESULTS}/corpus/{{language}}/tasks/summarization.jsonl",
        card=f"{RESULTS}/corpus/{{language}}/card.json",
    log:
        f"{RESULTS}/logs/corpus/{{language}}.log",
    wildcard_constraints:
        language=STUDY.single_languages(),
    cache: SHARED
    priority: 100
    params:
        job=lambda wildcards: job(STUDY, "prepare_corpus", wildcards),
    message:
        "Preparing the texts of {wildcards.language}"
    shell:
        "python scripts/prepare_corpus.py {params.job:q} > {log:q} 2>&1"


rule mix_corpora:
    input:
        lambda wildcards: STUDY.member_cards(wildcards.language),
    output:
        train=f"{RESULTS}/corpus/{{language}}/train.txt",
        heldout=f"{RESULTS}/corpus/{{language}}/heldout.txt",
        english=f"{RESULTS}/corpus/{{language}}/english.txt",
        translation=f"{RESULTS}/corpus/{{language}}/tasks/translation.jsonl",
        summarization=f"{RESULTS}/corpus/{{language}}/tasks/summarization.jsonl",
        card=f"{RESULTS}/corpus/{{language}}/card.json",
    log:
        f"{RESULTS}/logs/corpus/{{language}}.log",
    wildcard_constraints:
        language=STUDY.groups(),
    priority: 100
    params:
        job=lambda wildcards: job(STUDY, "mix_corpora", wildcards),
    message:
        "Mixing the texts of {wildcards.language}"
    shell:
        "python scripts/mix_corpora.py {params.job:q} > {log:q} 2>&1"


rule prepare_samples:
    input:
        corpus=rules.prepare_corpus.output.card,
        texts=lambda wildcards: STUDY.samples_inputs(wildcards),
    output:
        samples=f"{RESULTS}/corpus/{{language}}/samples/{{samples}}/samples.jsonl",
        card=f"{RESULTS}/corpus/{{language}}/samples/{{samples}}/card.json",
    log:
        f"{RESULTS}/logs/corpus/{{language}}/samples/{{samples}}.log",
    wildcard_constraints:
        language=STUDY.single_languages(),
    priority: 100
    params:
        job=lambda wildcards: job(STUDY, "prepare_samples", wildcards),
    message:
        "Preparing the samples {wildcards.samples} of {wildcards.language}"
    shell:
        "python scripts/prepare_samples.py {params.job:q} > {log:q} 2>&1"


rule mix_samples:
    input:
        lambda wildcards: STUDY.member_samples(wildcards),
    output:
        samples=f"{RESULTS}/corpus/{{language}}/samples/{{samples}}/samples.jsonl",
        card=f"{RESULTS}/corpus/{{language}}/samples/{{samples}}/card.json",
    log:
        f"{RESULTS}/logs/corpus/{{language}}/samples/{{samples}}.log",
    wildcard_constraints:
        language=STUDY.groups(),
    priority: 100
    params:
        job=lambda wildcards: job(STUDY, "mix_samples", wildcards),
    message:
        "Mixing the samples {wildcards.samples} of {wildcards.language}"
    shell:
        "python scripts/mix_samples.py {params.job:q} > {log:q} 2>&1"


rule answer_samples:
    input:
        lambda wildcards: answering_cards(STUDY, wildcards),
    output:
        samples=f"{RESULTS}/corpus/{{language}}/samples/{{samples}}/samples.jsonl",
        card=f"{RESULTS}/corpus/{{language}}/samples/{{samples}}/card.json",
    log:
        f"{RESULTS}/logs/corpus/{{language}}/samples/{{samples}}.log",
    wildcard_constraints:
        language=answered_languages(STUDY),
        samples=answered_samples(STUDY),
    priority: 100
    resources:
        gpu=1,
        mem_mb=lambda wildcards, attempt: STUDY.memory(
            "evaluation", answered_entry(STUDY, wildcards)["teacher"], attempt
        ),
        runtime=lambda wildcards, attempt: STUDY.minutes(
            "evaluation", answered_entry(STUDY, wildcards)["teacher"], attempt
        ),
    params:
        job=lambda wildcards: job(STUDY, "answer_samples", wildcards),
    message:
        "Answering the samples {wildcards.samples} of {wildcards.language}"
    shell:
        "python scripts/answer_samples.py {params.job:q} > {log:q} 2>&1"


ruleorder: mix_samples > answer_samples > prepare_samples


rule prepare_examples:
    input:
        lambda wildcards: STUDY.examples_inputs(wildcards),
    output:
        examples=f"{RESULTS}/examples/{{task}}/{{part}}/examples.jsonl",
        card=f"{RESULTS}/examples/{{task}}/{{part}}/card.json",
    log:
        f"{RESULTS}/logs/examples/{{task}}/{{part}}.log",
    wildcard_constraints:
        part="train|[a-z]{2,3}",
    priority: 100
    params:
        job=lambda wildcards: job(STUDY, "prepare_examples", wildcards),
    message:
        "Preparing the examples of {wildcards.task} ({wildcards.part})"
    shell:
        "python scripts/prepare_examples.py {params.job:q} > {log:q} 2>&1"


# Folders beside those of examples to learn from: what is asked, and what prompts begin with.
rule prepare_asked:
    input:
        lambda wildcards: STUDY.asked_inputs(wildcards),
    output:
        asked=f"{RESULTS}/examples/{{task}}/{{part}}/test_set.jsonl",
        card=f"{RESULTS}/examples/{{task}}/{{part}}/card.json",
    log:
        f"{RESULTS}/logs/examples/{{task}}/{{part}}.log",
    wildcard_constraints:
        part="(test|shots)-[a-z]{2,3}",
    priority: 100
    params:
        job=lambda wildcards: job(STUDY, "prepare_asked", wildcards),
    message:
        "Preparing what {wildcards.task} asks ({wildcards.part})"
    shell:
        "python scripts/prepare_asked.py {params.job:q} > {log:q} 2>&1"


# Not in the job that makes a corpus: another test set makes no text anew, and nothing made of it.
rule count_tests:
    input:
        lambda wildcards: STUDY.counted_inputs(wildcards),
    output:
        record=f"{RESULTS}/corpus/{{language}}/contamination/{{task}}/record.json",
    log:
        f"{RESULTS}/logs/corpus/{{language}}/contamination/{{task}}.log",
    params:
        job=lambda wildcards: job(STUDY, "count_tests", wildcards),
    message:
        "Looking for the tests of {wildcards.task} in the training text of {wildcards.language}"
    shell:
        "python scripts/count_tests.py {params.job:q} > {log:q} 2>&1"
