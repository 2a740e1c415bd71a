# Stage 3, vocabulary: the tokenizer that replaces the source's, made from the text of a language.
vocabulary = of_study("vocabulary", STUDY)


# The source's tokenizer expanded or pruned, or another one trained on the text.
rule build_vocabulary:
    input:
        source=rules.prepare_source.output.card,
        corpus=vocabulary.corpus,
    output:
        card="<results>/vocabulary/{source}/{language}/{vocabulary}/card.json",
    log:
        "<logs>/vocabulary/{source}/{language}/{vocabulary}.log",
    priority: 90
    resources:
        mem_mb=per_attempt(vocabulary.memory),
        runtime=per_attempt(vocabulary.minutes),
    params:
        job=job("build_vocabulary", version=1, settings=vocabulary.settings),
    message:
        "Building vocabulary {wildcards.vocabulary} of {wildcards.source} for {wildcards.language}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/build_vocabulary.py" {params.job:q} > {log:q} 2>&1'


# The tokenizer of another model; a local rule, since it may be on the hub.
rule take_vocabulary:
    input:
        source=rules.prepare_source.output.card,
        corpus=vocabulary.corpus,
        files=local_files(vocabulary.taken_settings),
    output:
        card="<results>/vocabulary/{source}/{language}/{vocabulary}/card.json",
    log:
        "<logs>/vocabulary/{source}/{language}/{vocabulary}.log",
    wildcard_constraints:
        vocabulary=one_of(vocabulary.taken()),
    priority: 90
    localrule: True
    params:
        job=job("take_vocabulary", version=1, settings=vocabulary.taken_settings),
    message:
        "Taking vocabulary {wildcards.vocabulary} for {wildcards.language}, to replace that of {wildcards.source}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/take_vocabulary.py" {params.job:q} > {log:q} 2>&1'


ruleorder: take_vocabulary > build_vocabulary
