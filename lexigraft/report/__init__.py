"""Build tables, figures and one page from the evaluation records of a study."""

from lexigraft.lazy_imports import lazy_imports

_MODULES = {
    "build_report": "lexigraft.report.page",
    "read_study": "lexigraft.report.records",
    "summarize": "lexigraft.report.frame",
}
__all__, __getattr__, __dir__ = lazy_imports(__name__, _MODULES)
