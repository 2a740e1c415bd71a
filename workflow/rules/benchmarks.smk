# Stage 7, evaluation: what the tasks of lm-evaluation-harness read. Where it cannot be had, the card
# says so, and records of the tasks say why they have no score.


rule prepare_benchmark:
    output:
        card=f"{RESULTS}/benchmarks/{{benchmark}}/card.json",
    log:
        f"{RESULTS}/logs/benchmarks/{{benchmark}}.log",
    priority: 100
    params:
        job=lambda wildcards: job(STUDY, "prepare_benchmark", wildcards),
    message:
        "Preparing the benchmark {wildcards.benchmark}"
    shell:
        "python scripts/prepare_benchmark.py {params.job:q} > {log:q} 2>&1"
