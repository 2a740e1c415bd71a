"""Sentences of findings, from numbers as `finding_numbers` returns them."""

import pytest

from lexigraft.report.findings import findings


def sentences(**numbers):
    every = {"vocabularies": [], "scores": [], "speed_up": []} | numbers
    return [finding.text for finding in findings({"te": every})]


def vocabulary(new, before, after, changed=None, source="m"):
    return {"source": source, "vocabulary": f"expand-{new}", "new_tokens": new,
            "tokens_per_sentence_before": before, "tokens_per_sentence_after": after,
            "english_sentences_changed": changed}  # fmt: skip


@pytest.mark.parametrize(
    ("after", "changed", "expected"),
    [
        (71.0, None, "500 new tokens shorten text from 90 to 71 tokens per sentence."),
        (95.0, 0.0, "500 new tokens lengthen text from 90 to 95 tokens per sentence; no English "
                    "sentence is tokenized differently."),
        (90.0, 0.125, "500 new tokens leave text at 90 tokens per sentence; 12.5 % of English "
                      "sentences are tokenized differently."),
    ],
)  # fmt: skip
def test_a_vocabulary_has_a_sentence_about_the_length_of_text(after, changed, expected):
    assert sentences(vocabularies=[vocabulary(500, 90.0, after, changed)]) == [expected]


def test_many_vocabularies_of_a_source_model_share_a_sentence():
    rows = [vocabulary(new, 90.0, after) for new, after in ((1000, 50.0), (100, 80.0), (500, 60.0))]
    assert sentences(vocabularies=[*rows, vocabulary(500, 40.0, 30.0, source="n")]) == [
        "for m, a sentence has 90 tokens without new tokens, 80 with 100 and 50 with 1,000 new "
        "tokens.",
        "for n, 500 new tokens shorten text from 40 to 30 tokens per sentence.",
    ]


def test_speed_ups_name_their_vocabularies_and_tasks_where_there_are_several():
    one = {"task": "speed", "batch": 1, "by_vocabulary": {"a": 2.0, "b": 3.5}}
    assert sentences(speed_up=[one]) == [
        "the same text is written 2.00 times as fast with a and 3.50 times as fast with b as by "
        "the source model (batch 1)."
    ]
    other = {"task": "long", "batch": 8, "by_vocabulary": {"a": 2.0}}
    assert sentences(speed_up=[one, other])[1] == (
        "the same text is written 2.00 times as fast as by the source model (long, batch 8)."
    )
