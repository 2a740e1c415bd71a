# Stage 5, initialization: a recipe over source tokens, or rows, for every new token. `fit` is seed-N
# for an initializer that draws at random, with one fit per seed; otherwise all-seeds.
initialization = of_study("initialization", STUDY)


rule initialize:
    input:
        source=rules.prepare_source.output.card,
        tokenizer=vocabulary.tokenizer,
        corpus=rules.prepare_corpus.output.card,
        auxiliary=tracked(initialization.auxiliary),
        dictionaries=tracked(initialization.dictionaries),
        samples=initialization.samples,
        files=local_files(initialization.settings),
    output:
        card="<results>/initialization/{source}/{language}/{vocabulary}/{initializer}/{fit}/card.json",
    log:
        "<logs>/initialization/{source}/{language}/{vocabulary}/{initializer}/{fit}.log",
    priority: 80
    resources:
        mem_mb=per_attempt(source.memory("initialization_mb")),
        runtime=per_attempt(30),
    params:
        job=job(
            "initialize",
            version=1,
            settings=initialization.settings,
            inputs={
                "auxiliary": initialization.auxiliary,
                "dictionaries": initialization.dictionaries,
                "samples": initialization.samples,
            },
            seed=seed(
                "initialization",
                "{source}/{language}/{vocabulary}/{initializer}/{fit}",
            ),
            versions=initialization.versions,
        ),
    message:
        "Initializing {wildcards.language} {wildcards.vocabulary} with {wildcards.initializer} ({wildcards.fit})"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/initialize.py" {params.job:q} > {log:q} 2>&1'


# Initializers that learn from the source model or its matrices run on the machine that trains it.
use rule initialize as learn_initialization with:
    wildcard_constraints:
        initializer=one_of(initialization.learning()),
    resources:
        mem_mb=per_attempt(source.memory("training_mb")),
        runtime=per_attempt(240),
        gpu=1,
    message:
        "Learning to initialize {wildcards.language} {wildcards.vocabulary} with {wildcards.initializer} ({wildcards.fit})"


ruleorder: learn_initialization > initialize
