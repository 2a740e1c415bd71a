"""Questions whose answer stands in a text (SQuAD, XQuAD), learned in English, by fine-tuning."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexigraft.atomic import write_jsonl
from lexigraft.corpus.examples import Example
from lexigraft.evaluation.answers import squad_exact_match, squad_f1
from lexigraft.evaluation.finetune import (
    Feature,
    FineTuning,
    fine_tuned_model,
    has_token_types,
    max_length,
)
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.evaluation.transfer import metrics_by_language, read_transfer_data

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lexigraft.evaluation.spans import Window


@dataclass(frozen=True)
class ExtractiveQASettings(FineTuning):
    """See `FineTuning`.

    Attributes
    ----------
    stride
        Tokens that two adjacent windows of a long context share.
    answer_tokens
        Tokens of an answer at most.
    """

    epochs: float = 2
    learning_rate: float = 3e-5
    length: int = 384
    stride: int = 128
    answer_tokens: int = 30


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Fine-tune the cell's encoder on English questions and test it on its own language.

    CW2V, section 4.6: no example of the target language is learned from. `f1` and `exact_match`
    are means over the questions, from 0 to 100 (see `answers`); `english_…` of English ones.

    Writes `outputs["predictions"]`: one JSON object per test question; `test` is the language.

    Raises
    ------
    UserError
        The windows have no room for a context.
    """
    from transformers import AutoModelForQuestionAnswering, DataCollatorWithPadding

    from lexigraft.evaluation.spans import answers_of, windows

    settings = read_settings(ExtractiveQASettings, job)
    parts = read_transfer_data(job, settings.train_examples, settings.test_examples)

    def cut(examples: list[Example]) -> "list[Window]":
        return windows(
            tokenizer,
            examples,
            length=max_length(model, settings),
            stride=settings.stride,
            types=has_token_types(model),
        )

    scores, rows = {}, []
    with fine_tuned_model(
        model,
        AutoModelForQuestionAnswering,
        [_with_span(window, parts.train[window.example]) for window in cut(parts.train)],
        DataCollatorWithPadding(tokenizer),
        settings,
        job,
    ) as predict:
        for name, examples in parts.tests.items():
            found = cut(examples)
            logits = predict([window.feature for window in found])
            answers = answers_of(examples, found, logits, settings.answer_tokens)
            scored = [_scored(*pair) for pair in zip(answers, examples, strict=True)]
            scores[name] = {
                metric: sum(row[metric] for row in scored) / len(scored)
                for metric in ("f1", "exact_match")
            }
            rows += [{**row, "id": f"{name}-{row['id']}", "test": name} for row in scored]
    write_jsonl(job["outputs"]["predictions"], rows)
    return Measurement(metrics_by_language(scores), parts.counts())


TASK = TaskKind(
    ExtractiveQASettings,
    evaluate,
    tests="examples",
    test_texts={"questions": ("question",), "contexts": ("context",)},
    fine_tunes=True,
    every_language=True,
    float32_on=("cpu", "cuda"),
)


def _with_span(window: "Window", example: Example) -> Feature:
    from lexigraft.evaluation.spans import span_of

    answer = example["answers"][0]
    first, last = span_of(window, answer["start"], answer["start"] + len(answer["text"]))
    return {**window.feature, "start_positions": first, "end_positions": last}


def _scored(answer: str, example: Example) -> dict[str, Any]:
    references = [reference["text"] for reference in example["answers"]]
    return {
        "id": example["id"],
        "source": example["question"],
        "output": answer,
        "reference": references[0],
        "f1": squad_f1(answer, references),
        "exact_match": squad_exact_match(answer, references),
    }
