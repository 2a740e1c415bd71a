"""Classification of a text or a pair of texts (XNLI), fine-tuned on English."""

from typing import TYPE_CHECKING, Any

from lexigraft.evaluation.fine_tuning import FineTuning, fine_tuned_task
from lexigraft.evaluation.metric_kinds import ACCURACY
from lexigraft.evaluation.task_kinds import Measurement, means, read_settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lexigraft.evaluation.transfer import Example, Feature, Predict, Scores


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Fine-tune the cell's encoder on labelled English texts and test it on its own language.

    `accuracy` is the share of test examples with the right label, from 0 to 1.
    """
    from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding

    from lexigraft.evaluation.transfer import Transfer

    task = Transfer(model, job, read_settings(FineTuning, job))
    label_ids = {label: number for number, label in enumerate(task.labels)}

    def features(examples: "list[Example]") -> "list[Feature]":
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

    def score(test: str, examples: "list[Example]", predict: "Predict") -> "Scores":
        logits = predict(features(examples))  # [examples, labels]
        rows = [
            {
                "id": example["id"],
                "test": test,
                "source": "\n".join(filter(None, [example["first"], example["second"]])),
                "output": task.labels[label_id],
                "reference": example["label"],
                "accuracy": float(task.labels[label_id] == example["label"]),
            }
            for example, label_id in zip(examples, logits.argmax(-1), strict=True)
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
