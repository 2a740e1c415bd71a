"""Classification of a text or a pair of texts (XNLI), fine-tuned on English."""

from typing import Any

from lexigraft.evaluation.metric_kinds import ACCURACY, Rows
from lexigraft.evaluation.task_kinds import Measurement, means, read_settings
from lexigraft.evaluation.transfer import FineTuning, Transfer, fine_tuned_task


def evaluate(model: Any, tokenizer: Any, job: dict[str, Any]) -> Measurement:
    """Fine-tune the cell's encoder on labelled English texts and test it on its own language.

    `accuracy` is the share of test examples with the right label, from 0 to 1.
    """
    from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding

    task = Transfer(model, job, read_settings(FineTuning, job))
    label_ids = {label: number for number, label in enumerate(task.labels)}

    def features(examples: Rows) -> Rows:
        encoded = tokenizer(
            [example["first"] for example in examples],
            [example["second"] for example in examples] if examples[0]["second"] else None,
            truncation=True,
            max_length=task.length,
            return_token_type_ids=task.token_types,
        )
        return [
            {name: values[index] for name, values in encoded.items()}
            | {"labels": label_ids[example["label"]]}
            for index, example in enumerate(examples)
        ]

    def score(examples: Rows, predict: Any) -> tuple[dict[str, float], Rows]:
        predicted = predict(features(examples)).argmax(-1)  # of [examples, labels]
        rows = [
            {
                "source": "\n".join(filter(None, [example["first"], example["second"]])),
                "output": task.labels[label_id],
                "reference": example["label"],
                "accuracy": float(task.labels[label_id] == example["label"]),
            }
            for example, label_id in zip(examples, predicted, strict=True)
        ]
        return means(rows, "accuracy"), rows

    head, collator = AutoModelForSequenceClassification, DataCollatorWithPadding(tokenizer)
    return task.measure(head, collator, features(task.train), score)


TASK = fine_tuned_task(
    FineTuning,
    evaluate,
    train_examples=392_702,
    primary_metric="accuracy",
    metrics=(ACCURACY,),
    test_texts={"": ("first", "second")},
    rows="labels",
)
