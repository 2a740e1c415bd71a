# Stage 8, report: tables, figures and pages of a study, from its records alone.
reporting = of_study("report", STUDY)


rule build_report:
    input:
        cells=reporting.cells,
        records=reporting.records,
        learned_scores=reporting.learned_scores,
        tokenizers=reporting.tokenizers,
        fragmentation=reporting.fragmentation,
        initializations=reporting.initializations,
        alignments=reporting.alignments,
        corpora=reporting.corpora,
        contamination=reporting.contamination,
        fonts=reporting.fonts,
        published=tracked(reporting.published),
    output:
        # The first output: jobs are described and listed by it.
        card="<results>/report/<study>/card.json",
        page=report(**in_report(STUDY, "report.html", "Report", "1 Read this first")),
        pages=[report(**file) for file in report_files(STUDY, "pages")],
        tables=[report(**file) for file in report_files(STUDY, "tables")],
        figures=[report(**file) for file in report_files(STUDY, "figures")],
    log:
        "<logs>/report/<study>.log",
    localrule: True
    params:
        job=job(
            "build_report",
            version=2,
            settings=reporting.settings,
            inputs={"fonts": reporting.fonts, "published": reporting.published},
            unlisted=[
                "cells",
                "records",
                "learned_scores",
                "tokenizers",
                "fragmentation",
                "initializations",
                "alignments",
                "corpora",
                "contamination",
            ],
            folders=reporting.folders,
            searched=lambda wildcards: corpus.searched(),
        ),
    message:
        f"Building the report of {STUDY.name}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/build_report.py" {params.job:q} > {log:q} 2>&1'
