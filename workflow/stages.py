"""The work of a study, stage by stage: what makes each output, and what it reads.

Snakemake finds the same by its rules, in a minute for ten thousand cells. This is for those who
look at a study while it runs: the stages of its cells, without the jobs that only fetch something.

Plain Python, as all of the workflow.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workflow.cells import AXES, Cell, is_wanted
from workflow.config.checks import SOURCE_VOCABULARY
from workflow.config.task_data import checkpoints_of, tested_language
from workflow.counted_tests import counted_tests
from workflow.grid import Study
from workflow.rule_inputs import made_by

STAGES = (
    "source",
    "corpus",
    "vocabulary",
    "auxiliary",
    "initialization",
    "training",
    "evaluation",
    "report",
)
CARD = "card.json"
RECORD = "record.json"
# Kind of auxiliary -> the rule that makes its vectors.
VECTORS = {
    "fasttext": "train_fasttext",
    "glove": "train_glove",
    "word-vectors": "read_word_vectors",
    "plm": "read_plm",
}


@dataclass(frozen=True, eq=False)
class Work:
    """One job of a stage.

    Attributes
    ----------
    rule, wildcards
        What `workflow.jobs.described` is asked for.
    folder
        Where its outputs lie.
    whole
        The file that is written last.
    log
        Where it says what went wrong.
    needs
        Folders of the works that it reads.
    files
        Files of the user's that it reads.
    """

    stage: str
    rule: str
    wildcards: Mapping[str, str]
    folder: str
    whole: str
    log: str
    needs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def works(study: Study) -> dict[str, Work]:
    """Folder -> work of each output of the study; what a work reads comes before it."""
    found: dict[str, Work] = {}
    for cell in study.cells:
        for work in _before_training(study, cell):
            found.setdefault(work.folder, work)
        training = _training(study, cell)
        found.setdefault(training.folder, training)
    for task, wanted in study.config["run_tasks"].items():
        for cell in study.cells:
            if is_wanted(cell, wanted):
                for run in range(wanted["runs"]):
                    for work in _evaluations(study, cell, task, run, found):
                        found.setdefault(work.folder, work)
    for work in (*_tokenizers(study), *_counts(study)):
        found.setdefault(work.folder, work)
    aligned = study.shows_alignment()
    for work in list(found.values()):
        for measured in _measurements(study, work, aligned):
            found.setdefault(measured.folder, measured)
    report = _work(study, "report", "build_report", {}, study.report_folder, tuple(found))
    found[report.folder] = report
    order = {stage: number for number, stage in enumerate(STAGES)}
    return dict(sorted(found.items(), key=lambda item: order[item[1].stage]))


def _before_training(study: Study, cell: Cell) -> Iterator[Work]:
    """Source, corpora, tokenizer, vectors and initializer of a cell, each before its readers."""
    yield _source(study, cell.source)
    yield from _corpus(study, cell.language)
    yield from _vocabulary(study, cell.source, cell.language, cell.vocabulary)
    folder = study.initialization_folder(cell)
    if folder is None:
        return
    wildcards = named(cell) | {"fit": folder.rsplit("/", 1)[1]}
    auxiliaries = study.auxiliary_folders(wildcards)
    names = study.config["initializers"][cell.initializer]["auxiliary"]
    for role, place in auxiliaries.items():
        vocabulary = SOURCE_VOCABULARY if role == "source" else cell.vocabulary
        own = wildcards | {"vocabulary": vocabulary, "auxiliary": names[role]}
        tokenizer = study.vocabulary_folder(cell.source, cell.language, vocabulary)
        needs: tuple[str, ...] = (tokenizer, study.corpus_folder(cell.language))
        rule = VECTORS[study.config["auxiliary"][names[role]]["kind"]]
        yield _work(study, "auxiliary", rule, own, place, needs)
    needs = (*_read_by_all(study, cell), *auxiliaries.values())
    yield _work(study, "initialization", "initialize", wildcards, folder, needs)


def _source(study: Study, source: str) -> Work:
    return _work(study, "source", "prepare_source", {"source": source}, study.source_folder(source))


def _corpus(study: Study, language: str) -> Iterator[Work]:
    for member in study.members(language):
        yield from _corpus(study, member)
    members = tuple(map(study.corpus_folder, study.members(language)))
    rule = "mix_corpora" if members else "prepare_corpus"
    files = () if members else tuple(study.corpus_inputs(language))
    folder, wildcards = study.corpus_folder(language), {"language": language}
    yield _work(study, "corpus", rule, wildcards, folder, members, files)


def _vocabulary(study: Study, source: str, language: str, vocabulary: str) -> Iterator[Work]:
    if vocabulary == SOURCE_VOCABULARY:
        return
    made = made_by(study.config["vocabularies"][vocabulary])
    wildcards = dict(zip(AXES, (source, language, vocabulary), strict=False))
    folder = study.vocabulary_folder(source, language, vocabulary)
    needs = (study.source_folder(source), study.corpus_folder(language))
    files = tuple(study.tokenizer_inputs(wildcards)) if made == "take" else ()
    yield _work(study, "vocabulary", f"{made}_vocabulary", wildcards, folder, needs, files)


def _training(study: Study, cell: Cell) -> Work:
    fitted = study.initialization_folder(cell)
    needs = (*_read_by_all(study, cell), *((fitted,) if fitted else ()))
    return _work(study, "training", "train", named(cell), study.training_folder(cell), needs)


def _evaluations(
    study: Study, cell: Cell, task: str, run: int, found: dict[str, Work]
) -> Iterator[Work]:
    """A task on a cell, on the checkpoints that it keeps, and what learned metrics say of it."""
    language = tested_language(study.config, task, cell.language)
    for corpus in _corpus(study, language):
        found.setdefault(corpus.folder, corpus)
    folder = study.evaluation_folder(cell, task, run)
    needs = (study.training_folder(cell), study.corpus_folder(language))
    wildcards = named(cell) | {"task": task, "run": str(run)}
    yield _work(study, "evaluation", "evaluate", wildcards, folder, needs)
    for number in checkpoints_of(study.config, task, cell.strategy):
        own, place = wildcards | {"checkpoint": str(number)}, f"{folder}/checkpoint-{number}"
        yield _work(study, "evaluation", "evaluate_checkpoint", own, place, needs)
    for metric in study.config["run_tasks"][task]["learned_metrics"]:
        place = f"{study.learned_folder(cell, task, run)}/{metric}"
        own = wildcards | {"metric": metric}
        yield _work(study, "evaluation", "score_predictions", own, place, (folder,))


def _tokenizers(study: Study) -> Iterator[Work]:
    """Tokenizers that are compared without any model, and the corpora whose text they cut."""
    wanted = study.config["fragmentation"]
    for language in wanted["languages"]:
        yield from _corpus(study, language)
        for tokenizer in wanted["tokenizers"]:
            folder = study.tokenizer_folder(tokenizer, language)
            own = {"tokenizer": tokenizer, "language": language}
            needs = (study.corpus_folder(language),)
            yield _work(study, "evaluation", "measure_tokenizer", own, folder, needs)


def _counts(study: Study) -> Iterator[Work]:
    """What of the tests is in the texts that cells are trained on."""
    for language, task in counted_tests(study):
        tested = tested_language(study.config, task, language)
        needs = tuple(dict.fromkeys(map(study.corpus_folder, (language, tested))))
        folder, own = (
            study.contamination_folder(language, task),
            {"language": language, "task": task},
        )
        yield _work(study, "corpus", "count_tests", own, folder, needs)


def _measurements(study: Study, work: Work, aligned: bool) -> Iterator[Work]:
    """What is measured of tokenizers and of fitted initializers, without a trained model."""
    needs: tuple[str, ...]
    if work.stage == "training":
        key = tuple(work.wildcards[axis] for axis in AXES[:3])
        needs = (study.vocabulary_folder(*key), study.corpus_folder(key[1]))
        folder = study.fragmentation_folder(*key)
        own = dict(zip(AXES, key, strict=False))
        yield _work(study, "evaluation", "measure_fragmentation", own, folder, needs)
    if work.stage == "initialization" and aligned:
        folder, needs = study.alignment_folder(work.folder), (work.folder,)
        yield _work(study, "evaluation", "measure_alignment", work.wildcards, folder, needs)


def _work(
    study: Study,
    stage: str,
    rule: str,
    wildcards: Mapping[str, str],
    folder: str,
    needs: tuple[str, ...] = (),
    files: tuple[str, ...] = (),
) -> Work:
    whole = f"{folder}/{_WHOLE.get(rule, CARD)}"
    if rule == "score_predictions":
        whole = f"{folder}.json"
    below = folder.removeprefix(f"{study.results}/")
    log = f"{study.results}/logs/{_log_of(rule, below, wildcards)}.log"
    return Work(stage, rule, wildcards, folder, whole, log, needs, files)


_WHOLE = {
    "evaluate": RECORD,
    "evaluate_checkpoint": RECORD,
    "measure_fragmentation": RECORD,
    "measure_tokenizer": RECORD,
    "measure_alignment": RECORD,
    "count_tests": RECORD,
    "build_report": "report.html",
}


def _log_of(rule: str, below: str, wildcards: Mapping[str, str]) -> str:
    """Where a rule's log lies below the folder of logs; mostly as its outputs below the results."""
    if rule == "measure_alignment":
        return below.replace("/alignment/", "/alignment-")
    if "run" not in wildcards:
        return below
    parts = [
        below.partition(f"/{wildcards['task']}/run-")[0],
        f"{wildcards['task']}-{wildcards['run']}",
    ]
    suffix = f"-checkpoint-{wildcards['checkpoint']}" if "checkpoint" in wildcards else ""
    suffix += f"-{wildcards['metric']}" if "metric" in wildcards else ""
    return "/".join(parts) + suffix


def _read_by_all(study: Study, cell: Cell) -> tuple[str, ...]:
    """Folders that both the initializer and the training of a cell read."""
    key = (cell.source, cell.language, cell.vocabulary)
    folders = (study.source_folder(cell.source), study.vocabulary_folder(*key))
    return tuple(dict.fromkeys((*folders, study.corpus_folder(cell.language))))


def named(cell: Cell) -> dict[str, str]:
    """The wildcards that name a cell."""
    return {axis: str(getattr(cell, axis)) for axis in AXES}
