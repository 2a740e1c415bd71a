"""Tagging of words (named entities, WikiANN), fine-tuned on English."""

from typing import Any

from pydantic import Field

from lexigraft.evaluation.metric_kinds import MetricKind, Rows
from lexigraft.evaluation.task_kinds import Measurement, read_settings
from lexigraft.evaluation.transfer import FineTuning, Transfer, fine_tuned_task
from lexigraft.inference.text_encoding import IGNORED

OUTSIDE = "O"


class TaggingSettings(FineTuning):
    """See `FineTuning`."""

    epochs: float = Field(10, gt=0)


def evaluate(model: Any, tokenizer: Any, job: dict[str, Any]) -> Measurement:
    """Fine-tune the cell's encoder on tagged English words and test it on its own language.

    `f1` is that of whole entities with the right type and boundaries, from 0 to 100, by seqeval as
    in CoNLL-2003.
    """
    import numpy as np
    from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification

    task = Transfer(model, job, read_settings(TaggingSettings, job))
    label_ids = {label: number for number, label in enumerate(task.labels)}

    def encode(examples: Rows) -> tuple[Rows, list[list[int | None]]]:
        """The model's inputs for each example, and the token that represents each of its words."""
        encoded = tokenizer(
            [" ".join(example["words"]) for example in examples],
            truncation=True,
            max_length=task.length,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_token_type_ids=False,
        )
        features, tokens_of = [], []
        for index, example in enumerate(examples):
            ids, mask = encoded["input_ids"][index], encoded["special_tokens_mask"][index]
            is_text = [not special for special in mask]
            tokens = word_tokens(example["words"], encoded["offset_mapping"][index], is_text)
            labels = [IGNORED] * len(ids)
            # Backwards: if one token represents two words, the tag of the first one counts.
            for token, tag in reversed(list(zip(tokens, example["tags"], strict=True))):
                if token is not None:
                    labels[token] = label_ids[tag]
            features.append({"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels})
            tokens_of.append(tokens)
        return features, tokens_of

    def score(examples: Rows, predict: Any) -> tuple[dict[str, float], Rows]:
        features, tokens_of = encode(examples)
        logits = predict(features)  # [examples, tokens, labels]
        predicted = [
            [OUTSIDE if token is None else task.labels[label_ids[token]] for token in tokens]
            for tokens, label_ids in zip(tokens_of, logits.argmax(-1), strict=True)
        ]
        rows = [
            {
                "source": " ".join(example["words"]),
                "output": " ".join(tags),
                "reference": " ".join(example["tags"]),
            }
            for example, tags in zip(examples, predicted, strict=True)
        ]
        counted = np.array([entity_statistics(row["output"], row["reference"]) for row in rows])
        return {"f1": float(entity_score(counted.sum(axis=0)))}, rows

    head, collator = AutoModelForTokenClassification, DataCollatorForTokenClassification(tokenizer)
    return task.measure(head, collator, encode(task.train)[0], score)


def entity_statistics(output: str, reference: str) -> list[int]:
    """Numbers of entities in the output, in the reference, and in both; spaces separate tags."""
    from seqeval.metrics.sequence_labeling import get_entities

    predicted, expected = ({*get_entities(tags.split())} for tags in (output, reference))
    return [len(predicted), len(expected), len(predicted & expected)]


def entity_score(totals: Any) -> Any:
    """F1 of entities, 0 to 100, of summed statistics: [..., 3] -> [...]; 0 if there are none."""
    import numpy as np

    predicted, expected, both = np.moveaxis(totals, -1, 0)
    return 200 * both / np.maximum(predicted + expected, 1)


def word_tokens(
    words: list[str], offsets: list[tuple[int, int]], is_text: list[bool]
) -> list[int | None]:
    """The first token that contains a part of each word, for words joined by spaces.

    A token may contain parts of two words and then represents both; a truncated word has none.
    `is_text` marks the tokens that are not special tokens. Comparing offsets works for every family
    of tokenizers, however it treats spaces.
    """
    tokens: list[int | None] = []
    begin, token = 0, 0
    for word in words:
        end = begin + len(word)
        while token < len(offsets) and (not is_text[token] or offsets[token][1] <= begin):
            token += 1
        inside = token < len(offsets) and offsets[token][0] < end
        tokens.append(token if inside else None)
        begin = end + 1
    return tokens


TASK = fine_tuned_task(
    TaggingSettings,
    evaluate,
    train_examples=20_000,
    primary_metric="f1",
    metrics=(
        MetricKind(
            "f1",
            "F1",
            statistics=lambda rows, details: [
                entity_statistics(row["output"], row["reference"]) for row in rows
            ],
            total=entity_score,
        ),
    ),
    test_texts={"": ("words",)},
    rows="tags",
)
