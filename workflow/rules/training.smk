# Stage 6, training: continual pre-training of a grafted model; only what changed is stored.


rule train:
    input:
        source=rules.prepare_source.output.card,
        tokenizer=lambda wildcards: STUDY.tokenizer_card(wildcards),
        initialization=lambda wildcards: STUDY.initialization_cards(wildcards),
        train=rules.prepare_corpus.output.train,
        heldout=rules.prepare_corpus.output.heldout,
        english=rules.prepare_corpus.output.english,
        samples=lambda wildcards: STUDY.training_samples(wildcards),
        teacher=lambda wildcards: teacher_cards(STUDY, wildcards.strategy),
    output:
        changed=f"{RESULTS}/training/{CELL}/changed.safetensors",
        log=f"{RESULTS}/training/{CELL}/log.jsonl",
        card=f"{RESULTS}/training/{CELL}/card.json",
    log:
        f"{RESULTS}/logs/training/{CELL}.log",
    priority: 50
    resources:
        gpu=lambda wildcards: training_gpus(STUDY, wildcards.source, wildcards.strategy),
        mem_mb=lambda wildcards, attempt: training_memory(
            STUDY, wildcards.source, wildcards.strategy, attempt
        ),
        runtime=lambda wildcards, attempt: training_minutes(
            STUDY, wildcards.source, wildcards.strategy, attempt
        ),
    params:
        job=lambda wildcards: job(STUDY, "train", wildcards),
        launcher=lambda wildcards, resources: launcher(
            STUDY, wildcards.source, resources.gpu
        ),
    message:
        "Training {wildcards.language} {wildcards.vocabulary} {wildcards.initializer} {wildcards.strategy} seed {wildcards.seed}"
    shell:
        "python -m lexigraft.gpus {resources.gpu} {params.launcher} scripts/train.py {params.job:q} > {log:q} 2>&1"


rule export_cell:
    input:
        card=rules.train.output.card,
    output:
        config=f"{RESULTS}/export/{CELL}/config.json",
    log:
        f"{RESULTS}/logs/export/{CELL}.log",
    resources:
        mem_mb=lambda wildcards, attempt: STUDY.memory(
            "training", wildcards.source, attempt
        ),
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        job=lambda wildcards: job(STUDY, "export_cell", wildcards),
    message:
        "Exporting {wildcards.language} {wildcards.vocabulary} {wildcards.initializer} {wildcards.strategy} seed {wildcards.seed}"
    shell:
        "python scripts/export.py {params.job:q} > {log:q} 2>&1"
