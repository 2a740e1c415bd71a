"""Tagging of words (named entities, WikiANN), fine-tuned on English."""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from lexigraft.corpus.examples import Example
from lexigraft.evaluation import finetune
from lexigraft.evaluation.finetune import Feature, FineTuning, Predict, Scores
from lexigraft.evaluation.task_kinds import Measurement, read_settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

IGNORED = -100  # label of a token without a word, by torch's convention
OUTSIDE = "O"


class TaggingSettings(FineTuning):
    """See `FineTuning`."""

    epochs: float = Field(10, gt=0)


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Fine-tune the cell's encoder on tagged English words and test it on its own language.

    `f1` is that of whole entities with the right type and boundaries, from 0 to 100, by seqeval as
    in CoNLL-2003; `english_f1` is that of English text. The `test` of a prediction is its language.
    """
    from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification

    task = finetune.Transfer(model, job, read_settings(TaggingSettings, job))
    numbers = {label: number for number, label in enumerate(task.labels)}

    def encode(examples: list[Example]) -> tuple[list[Feature], list[list[int | None]]]:
        """The model's inputs for each example, and the token that represents each of its words."""
        encoded = tokenizer(
            [" ".join(example["words"]) for example in examples],
            truncation=True,
            max_length=task.length,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_token_type_ids=False,
        )
        features, places_of = [], []
        for at, example in enumerate(examples):
            ids, mask = encoded["input_ids"][at], encoded["special_tokens_mask"][at]
            is_text = [not special for special in mask]
            places = word_tokens(example["words"], encoded["offset_mapping"][at], is_text)
            labels = [IGNORED] * len(ids)
            # Backwards: if one token represents two words, the tag of the first one counts.
            for place, tag in reversed(list(zip(places, example["tags"], strict=True))):
                if place is not None:
                    labels[place] = numbers[tag]
            features.append({"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels})
            places_of.append(places)
        return features, places_of

    def score(test: str, examples: list[Example], predict: Predict) -> Scores:
        features, places_of = encode(examples)
        logits = predict(features)  # [examples, tokens, labels]
        found = [
            [OUTSIDE if place is None else task.labels[number[place]] for place in places]
            for places, number in zip(places_of, logits.argmax(-1), strict=True)
        ]
        rows = [
            {
                "id": example["id"],
                "test": test,
                "source": " ".join(example["words"]),
                "output": " ".join(tags),
                "reference": " ".join(example["tags"]),
            }
            for example, tags in zip(examples, found, strict=True)
        ]
        return {"f1": entity_f1([example["tags"] for example in examples], found)}, rows

    head, collator = AutoModelForTokenClassification, DataCollatorForTokenClassification(tokenizer)
    features, _ = encode(task.train)
    return task.measure(head, collator, features, score)


TASK = finetune.transfer_kind(TaggingSettings, evaluate, test_texts={"": ("words",)})


def entity_f1(expected: list[list[str]], found: list[list[str]]) -> float:
    """F1 of whole entities over all sentences, from 0 to 100; 0 if there are no entities."""
    from seqeval.metrics import f1_score

    return 100 * float(f1_score(expected, found, zero_division=0))


def word_tokens(
    words: list[str], offsets: list[tuple[int, int]], is_text: list[bool]
) -> list[int | None]:
    """The first token that contains a part of each word, for words joined by spaces.

    A token may contain parts of two words and then represents both; a truncated word has none.
    Since offsets in the joined text are compared, this works for every family of tokenizers,
    however it treats spaces. `is_text` marks the tokens that are not special tokens.
    """
    places: list[int | None] = []
    begin, token = 0, 0
    for word in words:
        end = begin + len(word)
        while token < len(offsets) and (not is_text[token] or offsets[token][1] <= begin):
            token += 1
        inside = token < len(offsets) and offsets[token][0] < end
        places.append(token if inside else None)
        begin = end + 1
    return places
