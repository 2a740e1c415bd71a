# Stage 6, training: continual pre-training of the adapted model; only changed weights are stored.
# For the vocabulary `source`, the card of `vocabulary.tokenizer` is that of prepare_source.
training = of_study("training", STUDY)


rule train:
    input:
        source=rules.prepare_source.output.card,
        tokenizer=vocabulary.tokenizer,
        # The fitted initializer, of the cell's seed if it draws random numbers; none for `none`.
        initialization=training.initialization,
        corpus=rules.prepare_corpus.output.card,
        samples=tracked(training.samples),
        teacher=training.teacher,
        # The source of the strategy's key `merge.of`, such as a chat model.
        merged=training.merged,
        # The cell of the strategy's key `after`, which this one continues.
        start=training.start,
    output:
        card="<results>/training/{source}/{language}/{vocabulary}/{initializer}/{strategy}/seed-{seed}/card.json",
    log:
        "<logs>/training/{source}/{language}/{vocabulary}/{initializer}/{strategy}/seed-{seed}.log",
    priority: 50
    resources:
        mem_mb=per_attempt(training.memory),
        runtime=per_attempt(training.minutes),
        gpu=training.gpus,
    params:
        job=job(
            "train",
            version=1,
            settings=lambda wildcards: STUDY.strategies[wildcards.strategy],
            inputs={"samples": training.samples},
            # An earlier cell with other settings or versions is moved there.
            outputs={"replaced": f"{STUDY.results}/replaced"},
            cell=training.cell,
            seed=seed("training", CELL_PATH),
            versions=training.versions,
        ),
        # One process per GPU.
        launcher=lambda wildcards, resources: training.launcher(
            wildcards, resources.gpu
        ),
    message:
        "Training {wildcards.language} {wildcards.vocabulary} {wildcards.initializer} {wildcards.strategy} seed {wildcards.seed}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python -m lexigraft.gpus {resources.gpu} {params.launcher} "$LEXIGRAFT/scripts/train.py" {params.job:q} > {log:q} 2>&1'


# A plain Hugging Face folder; made on demand, no part of a study.
rule export_cell:
    input:
        cell=rules.train.output.card,
    output:
        card="<results>/export/{source}/{language}/{vocabulary}/{initializer}/{strategy}/seed-{seed}/card.json",
    log:
        "<logs>/export/{source}/{language}/{vocabulary}/{initializer}/{strategy}/seed-{seed}.log",
    resources:
        mem_mb=per_attempt(source.memory("training_mb")),
        runtime=per_attempt(30),
    params:
        job=job("export_cell", version=1),
    message:
        "Exporting {wildcards.language} {wildcards.vocabulary} {wildcards.initializer} {wildcards.strategy} seed {wildcards.seed}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/export.py" {params.job:q} > {log:q} 2>&1'
