# Stage 8, report: tables, figures and pages of a study, from its records alone.


rule build_report:
    input:
        # Found when the report is planned, not in each job, which parses this file again.
        lambda wildcards: STUDY.inputs("build_report", wildcards),
    output:
        card=STUDY.card("build_report"),
        page=report(**in_report(STUDY, "report.html", "Report", "1 Read this first")),
        pages=[report(**file) for file in report_files(STUDY, "pages")],
        tables=[report(**file) for file in report_files(STUDY, "tables")],
        figures=[report(**file) for file in report_files(STUDY, "figures")],
    log:
        STUDY.log("build_report"),
    localrule: True
    params:
        job=lambda wildcards: STUDY.job("build_report", wildcards),
    message:
        f"Building the report of {STUDY.name}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/build_report.py" {params.job:q} > {log:q} 2>&1'
