# Stage 7, evaluation: every task of the study on every cell, and tokenizers without a model.


rule measure_fragmentation:
    input:
        source=rules.prepare_source.output.card,
        tokenizer=lambda wildcards: STUDY.tokenizer_card(wildcards),
        train=rules.prepare_corpus.output.train,
        heldout=rules.prepare_corpus.output.heldout,
        english=rules.prepare_corpus.output.english,
        translation=rules.prepare_corpus.output.translation,
    output:
        record=f"{RESULTS}/evaluation/{VOCABULARY}/fragmentation/record.json",
    log:
        f"{RESULTS}/logs/evaluation/{VOCABULARY}/fragmentation.log",
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 20 * attempt,
    params:
        job=lambda wildcards: job(STUDY, "measure_fragmentation", wildcards),
    message:
        "Measuring how {wildcards.vocabulary} of {wildcards.source} cuts {wildcards.language}"
    shell:
        "python scripts/measure_fragmentation.py {params.job:q} > {log:q} 2>&1"


rule measure_tokenizer:
    input:
        tokenizer=lambda wildcards: STUDY.measured_inputs(wildcards.tokenizer),
        corpus=rules.prepare_corpus.output.card,
    output:
        record=f"{RESULTS}/fragmentation/{{tokenizer}}/{{language}}/record.json",
    log:
        f"{RESULTS}/logs/fragmentation/{{tokenizer}}/{{language}}.log",
    params:
        job=lambda wildcards: job(STUDY, "measure_tokenizer", wildcards),
    message:
        "Measuring how the tokenizer {wildcards.tokenizer} cuts {wildcards.language}"
    shell:
        "python scripts/measure_tokenizer.py {params.job:q} > {log:q} 2>&1"


rule measure_alignment:
    input:
        source=rules.prepare_source.output.card,
        tokenizer=lambda wildcards: STUDY.tokenizer_card(wildcards),
        initialization=rules.initialize.output.card,
        heldout=rules.prepare_corpus.output.heldout,
        encoder=STUDY.sentence_encoder_inputs(),
    output:
        record=f"{RESULTS}/evaluation/{VOCABULARY}/{{initializer}}/alignment/{{fit}}/record.json",
    log:
        f"{RESULTS}/logs/evaluation/{VOCABULARY}/{{initializer}}/alignment-{{fit}}.log",
    resources:
        mem_mb=lambda wildcards, attempt: STUDY.memory(
            "initialization", wildcards.source, attempt
        ),
        runtime=lambda wildcards, attempt: 20 * attempt,
    params:
        job=lambda wildcards: job(STUDY, "measure_alignment", wildcards),
    message:
        "Measuring how {wildcards.initializer} aligns {wildcards.language} {wildcards.vocabulary} ({wildcards.fit})"
    shell:
        "python scripts/measure_alignment.py {params.job:q} > {log:q} 2>&1"


rule evaluate:
    input:
        card=rules.train.output.card,
        changed=rules.train.output.changed,
        texts=lambda wildcards: STUDY.tested_texts(wildcards),
        examples=lambda wildcards: STUDY.examples_cards(wildcards),
        benchmarks=lambda wildcards: STUDY.benchmark_cards(wildcards),
        prompts=lambda wildcards: STUDY.prompts(wildcards.task),
    output:
        record=f"{RESULTS}/evaluation/{CELL}/{{task}}/run-{{run}}/record.json",
    log:
        f"{RESULTS}/logs/evaluation/{CELL}/{{task}}-{{run}}.log",
    # A speed is measured with no other job beside it.
    threads: lambda wildcards: workflow.cores if STUDY.runs_alone(wildcards.task) else 1
    resources:
        gpu=1,
        mem_mb=lambda wildcards, attempt: STUDY.memory(
            "evaluation", wildcards.source, attempt
        ),
        runtime=lambda wildcards, attempt: STUDY.minutes(
            "evaluation", wildcards.source, attempt
        ),
    params:
        job=lambda wildcards: job(STUDY, "evaluate", wildcards),
    message:
        "Evaluating {wildcards.task} of {wildcards.language} {wildcards.vocabulary} {wildcards.initializer} {wildcards.strategy} seed {wildcards.seed}"
    shell:
        "python -m lexigraft.gpus {resources.gpu} python scripts/evaluate.py {params.job:q} > {log:q} 2>&1"


# A checkpoint lies in its cell's folder and is whole when the cell is.
use rule evaluate as evaluate_checkpoint with:
    output:
        record=f"{RESULTS}/evaluation/{CELL}/{{task}}/run-{{run}}/checkpoint-{{checkpoint}}/record.json",
    log:
        f"{RESULTS}/logs/evaluation/{CELL}/{{task}}-{{run}}-checkpoint-{{checkpoint}}.log",
    params:
        job=lambda wildcards: job(STUDY, "evaluate_checkpoint", wildcards),
    message:
        "Evaluating {wildcards.task} of {wildcards.language} {wildcards.vocabulary} {wildcards.initializer} {wildcards.strategy} seed {wildcards.seed}, checkpoint {wildcards.checkpoint}"
