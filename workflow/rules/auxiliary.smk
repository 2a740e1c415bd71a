# Stage 4, auxiliary: static vectors of tokens, for the initializers that name them. The vocabulary is
# the cell's, or `source` for vectors of the source's own tokens.
auxiliary = of_study(inputs.auxiliary, STUDY)


# By the kind of the entry: trained on text (fasttext, glove), read from files of word vectors or from
# another model's embeddings (plm), or encoded by a sentence encoder.
rule compute_vectors:
    input:
        tokenizer=vocabulary.tokenizer,
        corpus=auxiliary.corpus,
        source=auxiliary.counting_source,
        vectors=tracked(auxiliary.files),
        files=local_files(auxiliary.settings),
    output:
        card="<results>/auxiliary/{source}/{language}/{vocabulary}/{auxiliary}/card.json",
    log:
        "<logs>/auxiliary/{source}/{language}/{vocabulary}/{auxiliary}.log",
    priority: 85
    threads: auxiliary.threads
    resources:
        mem_mb=per_attempt(auxiliary.memory),
        runtime=per_attempt(auxiliary.minutes),
    params:
        job=job(
            "compute_vectors",
            version=1,
            settings=auxiliary.settings,
            inputs=auxiliary.files,
            unlisted=["vectors"],
            seed=auxiliary.seed,
            versions=auxiliary.versions,
        ),
    message:
        "Computing {wildcards.auxiliary} of {wildcards.language} {wildcards.vocabulary} of {wildcards.source}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/compute_vectors.py" {params.job:q} > {log:q} 2>&1'
