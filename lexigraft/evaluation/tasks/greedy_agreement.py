"""Whether new tokens change a model's greedy output after text in source tokens.

CW2V, section 3.3: rows in the convex hull of the source rows leave it unchanged (Theorem 2).
"""

from typing import Any

from pydantic import Field

from lexigraft.errors import UserError
from lexigraft.evaluation.costs import TaskSizes, Work, generation
from lexigraft.evaluation.metric_kinds import MetricKind
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.settings import Settings

_EXAMPLES = 5  # in the details of a record


class GreedyAgreementSettings(Settings):
    """Which sentences are continued, and how far."""

    # English sentences to continue; none: all.
    sentences: int | None = Field(200, ge=1)
    # Number of source tokens at the start of a sentence that form the prompt.
    prompt_tokens: int = Field(16, ge=1)
    # Maximum number of tokens that the source model generates after each prompt.
    max_new_tokens: int = Field(16, ge=1)
    # Maximum number of prompts continued together; none: as many as fit.
    batch_size: int | None = Field(None, ge=1)


def evaluate(model: Any, tokenizer: Any, job: dict[str, Any]) -> Measurement:
    """Compare the next tokens of the source model and the cell after the same source tokens.

    The source model continues each prompt greedily. Both models then read prompt and continuation,
    and the most likely tokens after every prefix are compared. A new token whose output row equals,
    bit by bit, that of the source's choice ties with it, which Theorem 2 allows.

    `greedy_agreement` is the share of prompts whose whole continuation is the same,
    `next_token_agreement` is the share of prefixes after which the most likely token is the same,
    and `new_token_choices` is the share of prefixes after which a new token is more likely than
    every source token: zero for rows in the convex hull of the source rows. Without training, the
    three measure only the initialization; with training, they measure how English has changed.

    A vocabulary that replaces the source's has other prefixes: it gets no metrics, and `details`
    say so. Needs memory for the source model in addition to the cell's. Raises `UserError` if the
    corpus has no English sentences.
    """
    from lexigraft.corpus.lines import corpus_sentences
    from lexigraft.evaluation.next_tokens import compare_next_tokens, continue_texts
    from lexigraft.evaluation.texts import draw
    from lexigraft.inference.generation import decode
    from lexigraft.inference.text_encoding import encode
    from lexigraft.initialization.pairing import pair_vocabularies
    from lexigraft.source.matrices import matrix_rows
    from lexigraft.source.model import load_model, open_source

    settings = read_settings(GreedyAgreementSettings, job)
    prepared = open_source(job["inputs"]["source"])
    folder, source_tokenizer = prepared.folder, prepared.tokenizer()
    pair = pair_vocabularies(source_tokenizer, tokenizer, matrix_rows(folder))
    if not pair.expands:
        why = "the vocabulary replaces the source's and does not have its prefixes"
        return Measurement({}, {"not_measured": why})
    source: Any = load_model(folder, model.dtype, model.device)
    corpus = job["inputs"]["corpus"]
    texts = draw(corpus_sentences(corpus, "english"), settings.sentences, job, "sentences")
    if not texts:
        raise UserError(
            f"{corpus}/english.txt: empty, but task '{job['task']}' continues English; give the "
            "language an `english` text or remove the task from run_tasks"
        )
    prompts = [ids[: settings.prompt_tokens] for ids in encode(source_tokenizer, texts)]
    agreements = compare_next_tokens(
        (source, source_tokenizer),
        model,
        prompts,
        is_new=pair.source_of < 0,
        max_new_tokens=settings.max_new_tokens,
        batch_size=settings.batch_size,
    )
    prefixes = sum(agreement.prefixes for agreement in agreements)
    metrics = {
        "greedy_agreement": sum(agreement.same for agreement in agreements) / len(agreements),
        "next_token_agreement": 1 - sum(agreement.changed for agreement in agreements) / prefixes,
        "new_token_choices": sum(agreement.new for agreement in agreements) / prefixes,
    }
    pairs = zip(prompts, agreements, strict=True)
    changed = [prompt for prompt, agreement in pairs if not agreement.same][:_EXAMPLES]
    columns: dict[str, list[str]] = {}
    if changed:
        columns["prompt"] = decode(source_tokenizer, changed)
        for name, opened in (("source", (source, source_tokenizer)), ("cell", (model, tokenizer))):
            continuations = continue_texts(*opened, changed, settings.max_new_tokens)
            columns[name] = decode(opened[1], continuations)
    details = {
        "prompts": len(prompts),
        "prefixes": prefixes,
        "new_tokens": len(pair.new_ids),
        "precision": str(model.dtype).removeprefix("torch."),
        "changed": [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ],
    }
    return Measurement(metrics, details)


def _cost(settings: GreedyAgreementSettings, sizes: TaskSizes) -> Work:
    sentences = settings.sentences or sizes.english.sentences
    return generation(sentences, settings.prompt_tokens, settings.max_new_tokens)


TASK = TaskKind(
    GreedyAgreementSettings,
    evaluate,
    tests="none",
    cost=_cost,
    metrics=(MetricKind("greedy_agreement", "greedy output unchanged", decimals=3),),
)
