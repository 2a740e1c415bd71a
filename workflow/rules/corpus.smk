# Stage 2, corpus: training text, held-out text and task data of each language and each group.


rule prepare_corpus:
    input:
        lambda wildcards: STUDY.corpus_inputs(wildcards.language),
    output:
        train=f"{RESULTS}/corpus/{{language}}/train.txt",
        heldout=f"{RESULTS}/corpus/{{language}}/heldout.txt",
        english=f"{RESULTS}/corpus/{{language}}/english.txt",
        translation=f"{RESULTS}/corpus/{{language}}/tasks/translation.jsonl",
        summarization=f"{RESULTS}/corpus/{{language}}/tasks/summarization.jsonl",
        card=f"{RESULTS}/corpus/{{language}}/card.json",
    log:
        f"{RESULTS}/logs/corpus/{{language}}.log",
    priority: 100
    params:
        job=lambda wildcards: job(STUDY, "prepare_corpus", wildcards),
    message:
        "Preparing the texts of {wildcards.language}"
    shell:
        "python scripts/prepare_corpus.py {params.job:q} > {log} 2>&1"


rule mix_corpora:
    input:
        lambda wildcards: STUDY.member_cards(wildcards.language),
    output:
        train=f"{RESULTS}/corpus/{{language}}/train.txt",
        heldout=f"{RESULTS}/corpus/{{language}}/heldout.txt",
        english=f"{RESULTS}/corpus/{{language}}/english.txt",
        translation=f"{RESULTS}/corpus/{{language}}/tasks/translation.jsonl",
        summarization=f"{RESULTS}/corpus/{{language}}/tasks/summarization.jsonl",
        card=f"{RESULTS}/corpus/{{language}}/card.json",
    log:
        f"{RESULTS}/logs/corpus/{{language}}.log",
    wildcard_constraints:
        language=STUDY.groups(),
    priority: 100
    params:
        job=lambda wildcards: job(STUDY, "mix_corpora", wildcards),
    message:
        "Mixing the texts of {wildcards.language}"
    shell:
        "python scripts/mix_corpora.py {params.job:q} > {log} 2>&1"


# The names of groups also look like languages.
ruleorder: mix_corpora > prepare_corpus
