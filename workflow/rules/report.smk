# Stage 8, report: tables, figures and pages of a study, from its records alone.

REPORT = STUDY.template("build_report")


def shown(path, name, label, category):
    """A file of the report with its caption, as Snakemake's own report lists it."""
    return report(
        f"{REPORT}/{path}",
        caption=os.path.abspath(f"{REPORT}/captions/{name}.rst"),
        category=category,
        labels={"item": label},
    )


rule build_report:
    input:
        # Found when the report is planned, not in each job, which parses this file again.
        lambda wildcards: STUDY.inputs("build_report", wildcards),
    output:
        card=STUDY.card("build_report"),
        page=shown("report.html", "report", "Report", "1 Read this first"),
        pages=[
            shown(f"{item.name}.html", item.name, item.label, "1 Read this first")
            for item in report_items(STUDY, "pages")
        ],
        tables=[
            shown(f"tables/{item.name}.html", item.name, item.label, "2 Tables")
            for item in report_items(STUDY, "tables")
        ],
        figures=[
            shown(f"figures/{item.name}.png", item.name, item.label, "3 Figures")
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
