"""Classification of a text or a pair of texts (XNLI), learned in English, by fine-tuning."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexigraft.atomic import write_jsonl
from lexigraft.corpus.examples import Example
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


@dataclass(frozen=True)
class ClassificationSettings(FineTuning):
    """See `FineTuning`."""


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Fine-tune the cell's encoder on labelled English texts and test it on its own language.

    CW2V, section 4.6: no example of the target language is learned from. `accuracy` is the share
    of test examples with the right label, from 0 to 1; `english_accuracy` that of English ones.

    Writes `outputs["predictions"]`: one JSON object per test example; `test` is the language.
    """
    from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding

    settings = read_settings(ClassificationSettings, job)
    parts = read_transfer_data(job, settings.train_examples, settings.test_examples)
    numbers = {label: number for number, label in enumerate(parts.labels)}

    def features(examples: list[Example]) -> list[Feature]:
        encoded = tokenizer(
            [example["first"] for example in examples],
            [example["second"] for example in examples] if examples[0]["second"] else None,
            truncation=True,
            max_length=max_length(model, settings),
            return_token_type_ids=has_token_types(model),
        )
        return [
            {name: values[at] for name, values in encoded.items()}
            | {"labels": numbers[example["label"]]}
            for at, example in enumerate(examples)
        ]

    scores, rows = {}, []
    with fine_tuned_model(
        model,
        AutoModelForSequenceClassification,
        features(parts.train),
        DataCollatorWithPadding(tokenizer),
        settings,
        job,
        num_labels=len(parts.labels),
    ) as predict:
        for name, examples in parts.tests.items():
            logits = predict(features(examples))  # [examples, labels]
            found = [parts.labels[number] for number in logits.argmax(-1)]
            right = [
                label == example["label"] for label, example in zip(found, examples, strict=True)
            ]
            scores[name] = {"accuracy": sum(right) / len(right)}
            rows += [
                {
                    "id": f"{name}-{example['id']}",
                    "test": name,
                    "source": "\n".join(filter(None, [example["first"], example["second"]])),
                    "output": label,
                    "reference": example["label"],
                    "accuracy": float(correct),
                }
                for example, label, correct in zip(examples, found, right, strict=True)
            ]
    write_jsonl(job["outputs"]["predictions"], rows)
    return Measurement(metrics_by_language(scores), parts.counts())


TASK = TaskKind(
    ClassificationSettings,
    evaluate,
    tests="examples",
    test_texts={"": ("first", "second")},
    fine_tunes=True,
    every_language=True,
    float32_on=("cpu", "cuda"),
)
