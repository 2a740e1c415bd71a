"""Classification of a text or a pair of texts (XNLI), fine-tuned on English."""

from typing import TYPE_CHECKING, Any

from lexigraft.corpus.examples import Example
from lexigraft.evaluation import finetune
from lexigraft.evaluation.finetune import Feature, FineTuning, Predict, Scores
from lexigraft.evaluation.task_kinds import Measurement, means, read_settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Fine-tune the cell's encoder on labelled English texts and test it on its own language.

    `accuracy` is the share of test examples with the right label, from 0 to 1; `english_accuracy`
    is that of English examples. The `test` of a prediction is its language.
    """
    from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding

    task = finetune.Transfer(model, job, read_settings(FineTuning, job))
    numbers = {label: number for number, label in enumerate(task.labels)}

    def features(examples: list[Example]) -> list[Feature]:
        encoded = tokenizer(
            [example["first"] for example in examples],
            [example["second"] for example in examples] if examples[0]["second"] else None,
            truncation=True,
            max_length=task.length,
            return_token_type_ids=task.token_types,
        )
        return [
            {name: values[at] for name, values in encoded.items()}
            | {"labels": numbers[example["label"]]}
            for at, example in enumerate(examples)
        ]

    def score(test: str, examples: list[Example], predict: Predict) -> Scores:
        logits = predict(features(examples))  # [examples, labels]
        rows = [
            {
                "id": example["id"],
                "test": test,
                "source": "\n".join(filter(None, [example["first"], example["second"]])),
                "output": task.labels[number],
                "reference": example["label"],
                "accuracy": float(task.labels[number] == example["label"]),
            }
            for example, number in zip(examples, logits.argmax(-1), strict=True)
        ]
        return means(rows, "accuracy"), rows

    head, collator = AutoModelForSequenceClassification, DataCollatorWithPadding(tokenizer)
    return task.measure(head, collator, features(task.train), score)


TASK = finetune.transfer_kind(FineTuning, evaluate, test_texts={"": ("first", "second")})
