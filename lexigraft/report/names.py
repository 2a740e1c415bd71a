"""Display names of the grid: rows, languages and strategies."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

OBJECTIVES = ("aim", "alm", "clm", "mtp", "mlm", "distill")
# Names as the papers write them.
_INITIALIZERS = {
    "awedist": "AweDist",
    "clp": "CLP",
    "cw2v": "CW2V",
    "focus": "FOCUS",
    "fvt": "FVT",
    "ofa": "OFA",
    "omp": "OMP",
    "retok": "ReTok",
    "salt": "SALT",
    "tokenadapt": "TokenAdapt",
    "transtokenizers": "Trans-tokenizers",
    "unifyvocab": "UnifyVocab",
    "wechsel": "WECHSEL",
}
_PROCEDURES = {
    "2x2ls": "2x2 LS",
    "dora": "DoRA",
    "lora": "LoRA",
    "lora-plus": "LoRA+",
    "rslora": "rsLoRA",
    "two-stage": "2-stage",
}
_BENCHMARKS = {
    "arc": "ARC",
    "arc-easy": "ARC-E",
    "belebele": "Belebele",
    "boolq": "BoolQ",
    "hellaswag": "HellaSwag",
    "mmmlu": "MMMLU",
    "openbookqa": "OpenBookQA",
    "piqa": "PIQA",
    "truthfulqa": "TruthfulQA",
    "winogrande": "WinoGrande",
    "xcopa": "XCOPA",
    "xnli": "XNLI",
    "xstorycloze": "XStoryCloze",
    "xwinograd": "XWinograd",
}
# Kinds of tasks with a name that is short enough to repeat for every language.
_TASKS = {"translation": "MT", "summarization": "SUM"}
# The kind of task of a mean over several tasks.
AVERAGE = "average"
# Titles of entries of the study: registry -> name -> title.
_TITLES: ContextVar[Mapping[str, Mapping[str, str]] | None] = ContextVar("titles", default=None)


@contextmanager
def shown_as(titles: Mapping[str, Mapping[str, str]]) -> Iterator[None]:
    """Show entries of a study by their titles, if they have one: registry -> name -> title."""
    token = _TITLES.set(titles)
    try:
        yield
    finally:
        _TITLES.reset(token)


@dataclass(frozen=True)
class StrategyName:
    """The parts of a strategy's name: procedure, objective and sequence length.

    `variant` is the rest of its name, e.g. `random head`.
    """

    procedure: str
    objective: str
    length: int | None
    variant: str = ""

    @property
    def title(self) -> str:
        """The procedure as the paper writes it, e.g. `2x2 LS`."""
        return _PROCEDURES.get(self.procedure, self.procedure)

    @property
    def setting(self) -> str:
        """Objective and length as the paper writes them, e.g. `CLM+512`, then the variant."""
        parts = [self.objective.upper()] if self.objective else []
        parts += [str(self.length)] if self.length else []
        return ", ".join(filter(None, ["+".join(parts), self.variant])) or "–"


def initializer_name(key: str) -> str:
    """The title of an initializer, or `Mean of all` for `mean-of-all`."""
    return _readable(_title("initializers", key))


def source_name(key: str) -> str:
    """The title of a source model, or its name."""
    return _title("sources", key)


def _title(kind: str, key: str) -> str:
    return (_TITLES.get() or {}).get(kind, {}).get(key, key)


def _readable(key: str) -> str:
    first, *rest = re.split("[-_ ]", key)
    return " ".join([_INITIALIZERS.get(first, first[:1].upper() + first[1:]), *rest])


def task_name(task: str, kind: str) -> str:
    """A short name of a task: `MT` for translation, `ARC-E 5-shot` for arc-easy-5-shot."""
    if kind == AVERAGE:
        return task
    title = _title("tasks", task)
    benchmark, *shots = title.removesuffix("-shot").rsplit("-", 1)
    if benchmark in _BENCHMARKS and title.endswith("-shot"):
        return f"{_BENCHMARKS[benchmark]} {shots[0]}-shot"
    return _readable(title) if title != task else _TASKS.get(kind, _readable(task))


def row_name(initializer: str, strategy: str) -> str:
    """The name in the model column of a table: Source, LAPT or the initializer."""
    if initializer == "none":
        return "Source" if strategy == "none" else "LAPT"
    return initializer_name(initializer)


def listed(names: Iterable[str]) -> str:
    """`a, b and c`."""
    *first, last = [*names] or [""]
    return " and ".join([", ".join(first), last] if first else [last])


def language_name(key: str, languages: dict[str, dict]) -> str:
    """The name in the registry, otherwise the capitalized key."""
    return languages.get(key, {}).get("name") or _readable(key)


def parse_strategy(key: str, phases: list[dict] | None = None) -> StrategyName:
    """Procedure, objective and length of a strategy, from its phases if known, else its name."""
    parts = _title("strategies", key).split("-")
    objective = next((part for part in parts[1:] if part in OBJECTIVES), "")
    # Without an objective, a length is at the end.
    at = parts.index(objective, 1) if objective else len(parts) - 1
    first, rest = parts[:at], parts[at + bool(objective) :]
    length = next((int(part) for part in rest if part.isdigit() and first), None)
    variant = " ".join(part for part in rest if not part.isdigit()) if objective else ""
    procedure = "-".join(first if objective or length else parts)
    if phases:
        objectives = dict.fromkeys(phase.get("objective", objective) for phase in phases)
        lengths = dict.fromkeys(phase.get("length", length) for phase in phases)
        objective = "+".join(filter(None, objectives))
        length = next(iter(lengths)) if len(lengths) == 1 else length
    return StrategyName(procedure, objective, length, variant)
