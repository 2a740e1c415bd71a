# Stage 2, corpus: training text, held-out text and task data of each language and each group.
corpus = of_study("corpus", STUDY)


# A group of languages is mixed from the texts of its members.
rule prepare_corpus:
    input:
        package=corpus.package,
        members=tracked(corpus.group_members),
        files=local_files(corpus.settings),
    output:
        card="<results>/corpus/{language}/card.json",
    log:
        "<logs>/corpus/{language}.log",
    priority: 100
    localrule: True
    params:
        job=job(
            "prepare_corpus",
            version=1,
            settings=corpus.settings,
            inputs={"members": corpus.group_members},
            seed=seed("corpus", "{language}"),
        ),
    message:
        "Preparing the texts of {wildcards.language}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/prepare_corpus.py" {params.job:q} > {log:q} 2>&1'


# Prompts with answers to train on; those of a group are mixed from its members' samples.
rule prepare_samples:
    input:
        corpus=corpus.sample_corpus,
        package=corpus.sample_package,
        samples=tracked(corpus.member_samples),
        corpora=tracked(corpus.group_members),
        files=local_files(corpus.sample_settings),
    output:
        card="<results>/corpus/{language}/samples/{samples}/card.json",
    log:
        "<logs>/corpus/{language}/samples/{samples}.log",
    priority: 100
    localrule: True
    params:
        job=job(
            "prepare_samples",
            version=1,
            settings=corpus.sample_settings,
            inputs={
                "samples": corpus.member_samples,
                "corpora": corpus.group_members,
            },
            seed=seed("corpus", "{language}", "samples", "{samples}"),
        ),
    message:
        "Preparing the samples {wildcards.samples} of {wildcards.language}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/prepare_samples.py" {params.job:q} > {log:q} 2>&1'


# Samples of the kind `answered` have the same card as others, with answers of a source model, on a GPU.
# The constraint of `language` looks ahead in the path to the name of the samples.
rule answer_samples:
    input:
        prompts=corpus.prompts,
        teacher=corpus.teacher,
    output:
        card="<results>/corpus/{language}/samples/{samples}/card.json",
    log:
        "<logs>/corpus/{language}/samples/{samples}.log",
    wildcard_constraints:
        language=corpus.answered(),
    priority: 100
    resources:
        mem_mb=per_attempt(corpus.answer_memory),
        runtime=per_attempt(corpus.answer_minutes),
        gpu=1,
    params:
        job=job(
            "answer_samples",
            version=1,
            settings=corpus.answer_settings,
            inputs={"prompts": corpus.prompts},
        ),
    message:
        "Answering the samples {wildcards.samples} of {wildcards.language}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python -m lexigraft.gpus {resources.gpu} python "$LEXIGRAFT/scripts/answer_samples.py" {params.job:q} > {log:q} 2>&1'


ruleorder: answer_samples > prepare_samples


# One part of a task's examples: to train on (train, validation) or the tests of a language; of tasks
# that generate, a test set (test-en) or the examples in prompts (shots-en).
rule prepare_examples:
    input:
        files=local_files(corpus.example_settings),
    output:
        card="<results>/examples/{task}/{part}/card.json",
    log:
        "<logs>/examples/{task}/{part}.log",
    wildcard_constraints:
        part="train|validation|((test|shots)-)?[a-z]{2,3}",
    priority: 100
    localrule: True
    params:
        job=job(
            "prepare_examples",
            version=1,
            settings=corpus.example_settings,
        ),
    message:
        "Preparing the examples of {wildcards.task} ({wildcards.part})"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/prepare_examples.py" {params.job:q} > {log:q} 2>&1'


# How much of a task's tests is in the training text of a language, which reports call contamination.
# `searched_tests` are test sets from prepare_examples, prepare_benchmark or prepare_corpus. A rule of
# its own, so that a new test set invalidates neither the text nor what depends on it.
rule count_tests:
    input:
        text=rules.prepare_corpus.output.card,
        tests=tracked(corpus.searched_tests),
    output:
        card="<results>/corpus/{language}/contamination/{task}/card.json",
    log:
        "<logs>/corpus/{language}/contamination/{task}.log",
    localrule: True
    params:
        job=job(
            "count_tests",
            version=1,
            settings=corpus.searched_settings,
            inputs={"tests": corpus.searched_tests},
            language=lambda wildcards: wildcards.language,
            task=lambda wildcards: wildcards.task,
        ),
    message:
        "Searching the training text of {wildcards.language} for the tests of {wildcards.task}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/count_tests.py" {params.job:q} > {log:q} 2>&1'
