from pathlib import Path

import pytest

from lexigraft.errors import UserError
from lexigraft.evaluation.prompts import (
    into_english_prompts,
    named_prompts,
    question_frame,
    summarization_frame,
    translation_prompts,
)

FOLDER = Path(__file__).resolve().parent.parent.parent / "config" / "prompts"
LANGUAGES = ["ar", "de", "el", "hi", "ja", "my", "si", "sw", "te", "th"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_of_the_paper_has_an_instruction_with_one_colon(language):
    [prompt] = translation_prompts(FOLDER, language, ["The sentence."])
    instruction, sentence = prompt.split("\n")
    assert len(instruction) > 10
    assert instruction.endswith(":")
    assert not instruction.endswith("::")
    assert "Translate" not in instruction
    assert sentence == "The sentence. ="


def test_another_language_gets_the_english_instruction_with_its_name():
    prompts = translation_prompts(FOLDER, "yo", ["Hello", "Bye"])
    assert prompts == [
        "Translate English to Yoruba:\nHello =",
        "Translate English to Yoruba:\nBye =",
    ]


def test_braces_in_a_sentence_stay():
    [prompt] = translation_prompts(FOLDER, "de", ["{count, plural} {source} {0}"])
    assert prompt.endswith("\n{count, plural} {source} {0} =")


def test_a_language_without_instruction_and_name_is_named():
    with pytest.raises(UserError, match="language 'xx' has neither"):
        translation_prompts(FOLDER, "xx", ["Hello"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_of_the_paper_has_a_template_on_one_line(language):
    before, after = summarization_frame(FOLDER, language)
    assert "\n" not in before + after
    assert "{" not in before + after
    assert before.endswith(": ")
    assert before.count(":") == after.count(":") == 1
    assert (after[0], after[-1]) == (" ", ":")
    assert before != summarization_frame(FOLDER, "yo")[0]


def test_the_prompt_is_instruction_label_article_and_label():
    before, after = summarization_frame(FOLDER, "sw")
    assert f"{before}Habari.{after}" == (
        "Andika muhtasari mfupi wa maandishi yafuatayo kwa Kiswahili. Makala: Habari. Muhtasari:"
    )


def test_another_language_is_asked_in_english_for_a_summary_in_it():
    before, after = summarization_frame(FOLDER, "ta")
    assert before == "Write a short summary of the following text in Tamil. Article: "
    assert after == " Summary:"
    with pytest.raises(UserError, match="language 'xx' has neither"):
        summarization_frame(FOLDER, "xx")


def test_translation_into_english_is_asked_for_in_english():
    prompts = into_english_prompts(FOLDER, "Telugu", ["{source}", "నమస్తే"])
    assert prompts == [
        "Translate Telugu to English:\n{source} =",
        "Translate Telugu to English:\nనమస్తే =",
    ]


def test_names_stand_before_sentence_and_answer():
    assert named_prompts(FOLDER, "English", "Swahili", ["Good {day}"]) == [
        "English: Good {day}\nSwahili:"
    ]


def test_a_headline_is_asked_for_in_english_of_every_language():
    before, after = summarization_frame(FOLDER, "te", "title")
    assert f"{before}x{after}" == (
        "Write a headline for the following text in Telugu. Text: x Headline:"
    )


def test_a_question_has_the_labels_of_its_language_or_english_ones():
    assert question_frame(FOLDER, "de") == ("Kontext: ", "\nFrage: ", "\nAntwort:")
    assert question_frame(FOLDER, "mr") == ("Context: ", "\nQuestion: ", "\nAnswer:")
