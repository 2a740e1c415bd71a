# Stage 4, auxiliary: static vectors of tokens, for the initializers that name them. The vocabulary is
# the cell's, or `source` for vectors of the source's own tokens: the card of `vocabulary.tokenizer`
# is then that of prepare_source.
auxiliary = of_study("auxiliary", STUDY)


# By the kind of the entry: trained on text (fasttext, glove), read from files of word vectors or from
# another model's embeddings (plm), or encoded by a sentence encoder.
rule compute_vectors:
    input:
        tokenizer=vocabulary.tokenizer,
        corpus=auxiliary.corpus,
        # Only if the entry limits the text, whose tokens the source's tokenizer counts.
        source=auxiliary.counting_source,
        # The user's files of word vectors, or an encoder and its vectors of the source's tokens: the
        # card of another job of this rule.
        kind_inputs=tracked(auxiliary.kind_inputs),
        files=local_files(auxiliary.settings),
    output:
        card="<results>/auxiliary/{source}/{language}/{vocabulary}/{auxiliary}/card.json",
    log:
        "<logs>/auxiliary/{source}/{language}/{vocabulary}/{auxiliary}.log",
    priority: 85
    threads: lambda wildcards: STUDY.auxiliary[wildcards.auxiliary].cost.threads
    resources:
        mem_mb=per_attempt(auxiliary.memory),
        runtime=per_attempt(auxiliary.minutes),
    params:
        job=job(
            "compute_vectors",
            version=1,
            settings=auxiliary.settings,
            inputs=auxiliary.kind_inputs,
            unlisted=["kind_inputs"],
            seed=auxiliary.seed,
            versions=auxiliary.versions,
        ),
    message:
        "Computing {wildcards.auxiliary} of {wildcards.language} {wildcards.vocabulary} of {wildcards.source}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/compute_vectors.py" {params.job:q} > {log:q} 2>&1'
