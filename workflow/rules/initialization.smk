# Stage 5, initialization: a recipe over source tokens, or rows, for every new token.


rule initialize:
    input:
        source=rules.prepare_source.output.card,
        tokenizer=lambda wildcards: STUDY.tokenizer_card(wildcards),
        train=rules.prepare_corpus.output.train,
        auxiliary=lambda wildcards: STUDY.auxiliary_cards(wildcards),
        dictionaries=lambda wildcards: STUDY.dictionary_inputs(wildcards),
    output:
        card=f"{RESULTS}/initialization/{VOCABULARY}/{{initializer}}/{{fit}}/card.json",
    log:
        f"{RESULTS}/logs/initialization/{VOCABULARY}/{{initializer}}/{{fit}}.log",
    priority: 80
    resources:
        gpu=0,
        mem_mb=lambda wildcards, attempt: STUDY.memory(
            "initialization", wildcards.source, attempt
        ),
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        job=lambda wildcards: job(STUDY, "initialize", wildcards),
    message:
        "Initializing {wildcards.language} {wildcards.vocabulary} by {wildcards.initializer} ({wildcards.fit})"
    shell:
        "python -m lexigraft.gpus {resources.gpu} python scripts/initialize.py {params.job:q} > {log:q} 2>&1"


# Those that learn from the source model or its matrices take the machine that trains it.
ruleorder: learn_initialization > initialize


use rule initialize as learn_initialization with:
    wildcard_constraints:
        initializer=STUDY.learned_initializers(),
    resources:
        gpu=1,
        mem_mb=lambda wildcards, attempt: STUDY.memory(
            "training", wildcards.source, attempt
        ),
        runtime=lambda wildcards, attempt: STUDY.minutes(
            "training", wildcards.source, attempt
        ),
