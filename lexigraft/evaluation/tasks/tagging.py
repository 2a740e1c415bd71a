"""Tags of words (named entities, WikiANN), learned in English, by fine-tuning."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexigraft.atomic import write_jsonl
from lexigraft.corpus.examples import Example
from lexigraft.evaluation.finetune import Feature, FineTuning, fine_tuned_model, max_length
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, read_settings
from lexigraft.evaluation.transfer import metrics_by_language, read_transfer_data

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

IGNORED = -100  # a token that stands for no word, by torch's convention
OUTSIDE = "O"


@dataclass(frozen=True)
class TaggingSettings(FineTuning):
    """See `FineTuning`."""

    epochs: float = 10


def evaluate(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> Measurement:
    """Fine-tune the cell's encoder on tagged English words and test it on its own language.

    CW2V, section 4.6: no example of the target language is learned from. `f1` is that of whole
    entities, type and both ends right, from 0 to 100, by seqeval as in CoNLL-2003; `english_f1` of
    English text.

    Writes `outputs["predictions"]`: one JSON object per test sentence; `test` is the language.
    """
    from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification

    settings = read_settings(TaggingSettings, job)
    parts = read_transfer_data(job, settings.train_examples, settings.test_examples)
    numbers = {label: number for number, label in enumerate(parts.labels)}
    length = max_length(model, settings)

    def features(examples: list[Example]) -> list[Feature]:
        encoded = _encoded(tokenizer, examples, length)
        return [
            {**feature, "labels": _labels(feature, places, example, numbers)}
            for (feature, places), example in zip(encoded, examples, strict=True)
        ]

    scores, rows = {}, []
    with fine_tuned_model(
        model,
        AutoModelForTokenClassification,
        features(parts.train),
        DataCollatorForTokenClassification(tokenizer),
        settings,
        job,
        num_labels=len(parts.labels),
    ) as predict:
        for name, examples in parts.tests.items():
            logits = predict(features(examples))  # [examples, tokens, labels]
            encoded = _encoded(tokenizer, examples, length)
            found = [
                [OUTSIDE if place is None else parts.labels[number[place]] for place in places]
                for (_, places), number in zip(encoded, logits.argmax(-1), strict=True)
            ]
            scores[name] = {"f1": entity_f1([example["tags"] for example in examples], found)}
            rows += [
                {
                    "id": f"{name}-{example['id']}",
                    "test": name,
                    "source": " ".join(example["words"]),
                    "output": " ".join(tags),
                    "reference": " ".join(example["tags"]),
                }
                for example, tags in zip(examples, found, strict=True)
            ]
    write_jsonl(job["outputs"]["predictions"], rows)
    return Measurement(metrics_by_language(scores), parts.counts())


TASK = TaskKind(
    TaggingSettings,
    evaluate,
    tests="examples",
    test_texts={"": ("words",)},
    fine_tunes=True,
    every_language=True,
    float32_on=("cpu", "cuda"),
)


def entity_f1(expected: list[list[str]], found: list[list[str]]) -> float:
    """F1 of whole entities over all sentences, from 0 to 100; 0 where there are none at all."""
    from seqeval.metrics import f1_score

    return 100 * float(f1_score(expected, found, zero_division=0))


def word_tokens(
    words: list[str], offsets: list[tuple[int, int]], is_text: list[bool]
) -> list[int | None]:
    """The first token that holds some of each word, where the words are joined by spaces.

    A token may hold the ends of two words, and both go by it; a word that was cut off has none.
    By offsets this holds for every family of tokenizers, whatever each makes of a space.

    Parameters
    ----------
    offsets
        Where each token begins and ends in the joined text.
    is_text
        Which tokens are no special tokens.
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


def _encoded(
    tokenizer: "PreTrainedTokenizerFast", examples: list[Example], length: int
) -> list[tuple[Feature, list[int | None]]]:
    """Each example as the model reads it, and the token that each of its words goes by."""
    encoded = tokenizer(
        [" ".join(example["words"]) for example in examples],
        truncation=True,
        max_length=length,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        return_token_type_ids=False,
    )
    return [
        (
            {"input_ids": ids, "attention_mask": [1] * len(ids)},
            word_tokens(example["words"], offsets, [not special for special in mask]),
        )
        for example, ids, offsets, mask in zip(
            examples,
            encoded["input_ids"],
            encoded["offset_mapping"],
            encoded["special_tokens_mask"],
            strict=True,
        )
    ]


def _labels(
    feature: Feature, places: list[int | None], example: Example, numbers: dict[str, int]
) -> list[int]:
    """The number of the tag at the token that each word goes by, IGNORED at all others."""
    labels = [IGNORED] * len(feature["input_ids"])
    # Backwards: of two words that go by one token, the first one's tag counts.
    for place, tag in reversed(list(zip(places, example["tags"], strict=True))):
        if place is not None:
            labels[place] = numbers[tag]
    return labels
