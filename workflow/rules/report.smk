# Stage 8, report: tables, figures and pages of a study, from its records alone.

REPORT = STUDY.report_folder


rule build_report:
    input:
        # Found when the report is planned, not in each job, which parses this file again.
        records=lambda wildcards: STUDY.records(),
        others=lambda wildcards: STUDY.report_dependencies(),
        fonts=STUDY.report_fonts(),
    output:
        page=report(
            f"{REPORT}/report.html",
            caption=os.path.abspath(f"{REPORT}/captions/report.rst"),
            category="1 Read this first",
            labels={"item": "Report"},
        ),
        summary=f"{REPORT}/summary.json",
        markdown=[f"{REPORT}/{item.name}.md" for item in STUDY.report_items("pages")],
        pages=[
            report(
                f"{REPORT}/{item.name}.html",
                caption=os.path.abspath(f"{REPORT}/captions/{item.name}.rst"),
                category="1 Read this first",
                labels={"item": item.label},
            )
            for item in STUDY.report_items("pages")
        ],
        tables=[
            report(
                f"{REPORT}/tables/{item.name}.html",
                caption=os.path.abspath(f"{REPORT}/captions/{item.name}.rst"),
                category="2 Tables",
                labels={"item": item.label},
            )
            for item in STUDY.report_items("tables")
        ],
        figures=[
            report(
                f"{REPORT}/figures/{item.name}.png",
                caption=os.path.abspath(f"{REPORT}/captions/{item.name}.rst"),
                category="3 Figures",
                labels={"item": item.label},
            )
            for item in STUDY.report_items("figures")
        ],
    log:
        f"{RESULTS}/logs/report/{STUDY.name}.log",
    params:
        job=lambda wildcards: job(STUDY, "build_report", wildcards),
    message:
        "Building the report of {STUDY.name}"
    shell:
        "python scripts/build_report.py {params.job:q} > {log:q} 2>&1"
