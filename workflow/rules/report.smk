# Stage 8, report: tables, figures and pages of a study, from its records alone.

REPORT = STUDY.template("build_report")


rule build_report:
    input:
        # Found when the report is planned, not in each job, which parses this file again.
        lambda wildcards: STUDY.inputs("build_report", wildcards),
    output:
        card=STUDY.card("build_report"),
        page=report(
            f"{REPORT}/report.html",
            caption=os.path.abspath(f"{REPORT}/captions/report.rst"),
            category="1 Read this first",
            labels={"item": "Report"},
        ),
        pages=[
            report(
                f"{REPORT}/{item.name}.html",
                caption=os.path.abspath(f"{REPORT}/captions/{item.name}.rst"),
                category="1 Read this first",
                labels={"item": item.label},
            )
            for item in report_items(STUDY, "pages")
        ],
        tables=[
            report(
                f"{REPORT}/tables/{item.name}.html",
                caption=os.path.abspath(f"{REPORT}/captions/{item.name}.rst"),
                category="2 Tables",
                labels={"item": item.label},
            )
            for item in report_items(STUDY, "tables")
        ],
        figures=[
            report(
                f"{REPORT}/figures/{item.name}.png",
                caption=os.path.abspath(f"{REPORT}/captions/{item.name}.rst"),
                category="3 Figures",
                labels={"item": item.label},
            )
            for item in report_items(STUDY, "figures")
        ],
    log:
        STUDY.log("build_report"),
    localrule: True
    params:
        job=lambda wildcards: STUDY.job("build_report", wildcards),
    message:
        f"Building the report of {STUDY.name}"
    shell:
        '"$LEXIGRAFT/scripts/job.sh" python "$LEXIGRAFT/scripts/build_report.py" {params.job:q} > {log:q} 2>&1'
