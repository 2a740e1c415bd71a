"""Extractive question answering (SQuAD, XQuAD), fine-tuned on English."""

from typing import Any

from pydantic import Field

from lexigraft.evaluation.answers import EXACT_MATCH, F1, squad_scores
from lexigraft.evaluation.metric_kinds import Rows
from lexigraft.evaluation.task_kinds import Measurement, means, read_settings
from lexigraft.evaluation.transfer import FineTuning, Transfer, fine_tuned_task


class ExtractiveQASettings(FineTuning):
    """See `FineTuning`."""

    epochs: float = Field(2, gt=0)
    learning_rate: float = Field(3e-5, gt=0)
    length: int = Field(384, ge=1)
    stride: int = Field(128, ge=0)  # tokens that two adjacent windows of a long context share
    answer_tokens: int = Field(30, ge=1)  # maximum number of tokens of an answer


def evaluate(model: Any, tokenizer: Any, job: dict[str, Any]) -> Measurement:
    """Fine-tune the cell's encoder on English questions and test it on its own language.

    `f1` and `exact_match` are means over the questions, from 0 to 100 (see `answers`). Raises
    `UserError` if the windows have no room for a context.
    """
    from transformers import AutoModelForQuestionAnswering, DataCollatorWithPadding

    from lexigraft.evaluation.spans import best_answers, span_of, split_into_windows

    settings = read_settings(ExtractiveQASettings, job)
    task = Transfer(model, job, settings)

    def windows_of(examples: Rows) -> list[Any]:
        lengths = {"length": task.length, "stride": settings.stride}
        return split_into_windows(tokenizer, examples, **lengths, token_types=task.token_types)

    def score(examples: Rows, predict: Any) -> tuple[dict[str, float], Rows]:
        windows = windows_of(examples)
        logits = predict([window.feature for window in windows])
        answers = best_answers(examples, windows, logits, settings.answer_tokens)
        rows = []
        for answer, example in zip(answers, examples, strict=True):
            references = [reference["text"] for reference in example["answers"]]
            rows.append(
                {
                    "source": example["question"],
                    "output": answer,
                    "reference": references[0],
                    **squad_scores(answer, references),
                }
            )
        return means(rows, "f1", "exact_match"), rows

    features = []
    for window in windows_of(task.train):
        answer = task.train[window.example]["answers"][0]
        first, last = span_of(window, answer["start"], answer["start"] + len(answer["text"]))
        features.append({**window.feature, "start_positions": first, "end_positions": last})
    head, collator = AutoModelForQuestionAnswering, DataCollatorWithPadding(tokenizer)
    return task.measure(head, collator, features, score)


TASK = fine_tuned_task(
    ExtractiveQASettings,
    evaluate,
    train_examples=87_599,
    primary_metric="f1",
    metrics=(F1, EXACT_MATCH),
    test_texts={"questions": ("question",), "contexts": ("context",)},
    rows="spans",
)
