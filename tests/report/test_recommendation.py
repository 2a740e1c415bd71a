"""What a study recommends: decided where examples decide, and honest where they do not."""

import json
import random
import re

import pytest

from lexigraft.report.build import build_report
from lexigraft.report.recommendation import gains, recommend
from lexigraft.report.recommendation_text import recommendation_texts
from lexigraft.report.records import read_study
from lexigraft.report.verdict import Decision

SOURCE = ("tiny", "te-made", "source", "none", "none", 0)
FULL = "full-clm-512"
LAPT = ("tiny", "te-made", "source", "none", FULL, 0)


def cell(initializer, vocabulary="expand-500", strategy=FULL, seed=0):
    return ("tiny", "te-made", vocabulary, initializer, strategy, seed)


@pytest.fixture
def made(made_study):
    """`write(cell, bits, english)`: held-out and English sentences of about so many bits a byte."""
    made_study.settings["reference"] = {"strategy": FULL}

    def write(cell, bits, english=1.0, keep=True):
        rows = []
        for test, mean in (("heldout", bits), ("english", english)):
            for at in range(60):
                draw = random.Random(repr((test, at, cell)))
                value = mean * (1 + 0.02 * draw.gauss(0, 1)) + random.Random(at).gauss(0, 0.1)
                rows.append({"id": f"{test}-{at}", "test": test, "bytes": 50, "tokens": 20,
                             "nats": value * 50 * 0.6931471805599453})  # fmt: skip
        metrics = {
            f"{prefix}bits_per_byte": sum(row["nats"] for row in rows if row["test"] == test)
            / sum(row["bytes"] for row in rows if row["test"] == test)
            / 0.6931471805599453
            for test, prefix in (("heldout", ""), ("english", "english_"))
        }
        made_study.record(cell, "ppl", "perplexity", metrics, predictions=rows if keep else None)

    made_study.write = write
    write(SOURCE, 2.0)
    return made_study


def found(made):
    study = read_study(made.settings, made.inputs)
    (one,) = recommend(study)
    (text,) = recommendation_texts(study)
    return one, gains(study, one), text


def asked(text, title):
    return next(question for question in text.questions if question.title.startswith(title))


def test_the_initializer_that_is_shown_to_be_better_is_chosen(made):
    for name, bits in (("random", 1.8), ("align", 1.4), ("mean", 1.6)):
        made.write(cell(name), bits)
    one, _, text = found(made)
    assert one.model.initializer == "align"
    assert one.choices[0].tied == ()
    assert text.verdict.decision == Decision.GRAFT
    question = asked(text, "Which initializer")
    assert question.answer == "Align is shown to be better than Random and Mean."
    # The better of the others first.
    assert re.search(
        r"best Align 1\.\d+; worse: Mean 1\.\d+, Random 1\.\d+\.", question.evidence[0]
    )
    (mean, random) = [one for one in text.tests if one.compared_with == "Align"]
    assert mean.model.startswith("Mean") and random.model.startswith("Random")
    assert mean.p == "< 0.001" and mean.difference.startswith("+0.")


def test_initializers_that_cannot_be_told_apart_are_all_named(made):
    for name, bits in (("random", 1.8), ("align", 1.4), ("merge", 1.4)):
        made.write(cell(name), bits)
    one, _, text = found(made)
    (choice, *_) = one.choices
    assert {choice.chosen.initializer, choice.tied[0].initializer} == {"align", "merge"}
    assert len(choice.tied) == 1
    assert asked(text, "Which initializer").answer.startswith("Not decided: ")
    (shown,) = asked(text, "Which initializer").evidence[:1]
    assert re.search(r"not shown to be worse: \w+ 1\.\d+; worse: Random 1", shown)


def test_without_outputs_nothing_is_decided(made):
    made.write(cell("align"), 1.4, keep=False)
    made.write(cell("mean"), 1.9, keep=False)
    one, _, text = found(made)
    assert one.model.initializer == "align"
    assert [model.initializer for model in one.choices[0].tied] == ["mean"]
    assert re.search(r"not tested: Mean 1\.\d+", asked(text, "Which initializer").evidence[0])
    assert asked(text, "Is it worth it").answer.startswith(
        "Compared with the source model: not tested."
    )
    assert text.verdict.decision == Decision.UNDECIDED
    assert text.tests == []


def test_a_cell_that_was_not_measured_stands_in_nobodys_way(made):
    for name, bits in (("align", 1.4), ("mean", 1.6)):
        made.write(cell(name), bits)
    made.record(cell("merge"), "speed", "speed", {"tokens_per_second_batch_1": 20.0})
    one, _, _ = found(made)
    assert one.model.initializer == "align"
    assert [rival.initializer for rival in one.choices[0].rivals] == ["align", "mean"]


def test_the_winner_of_most_measures_is_chosen(made):
    for name, bits, words in (("align", 1.4, 40), ("mean", 1.8, 44)):
        made.write(cell(name), bits)
        for task, level in (("qa", words), ("sum", words)):
            draw = random.Random(repr((name, task)))
            rows = [{"id": str(at), "rouge_l": level + draw.gauss(0, 2)} for at in range(50)]
            mean = sum(row["rouge_l"] for row in rows) / 50
            made.record(cell(name), task, "summarization", {"rouge_l": mean}, predictions=rows)
    one, _, text = found(made)
    assert one.model.initializer == "mean"
    assert asked(text, "Which initializer").answer.startswith("Mean leads on 2 of 3 measures")


def test_scores_that_are_noise_have_no_say(made):
    for name, bits, chrf in (("align", 1.4, 2.0), ("mean", 1.8, 7.0)):
        made.write(cell(name), bits)
        made.record(cell(name), "mt", "translation", {"chrf": chrf})
    one, _, text = found(made)
    assert one.model.initializer == "align"
    assert [task for _, task, _ in one.noise] == ["mt"]
    assert any("chrF (mt)" in line for line in asked(text, "How certain").evidence)
    others = [question for question in text.questions if question.title != "How certain is this?"]
    assert not any("chrF" in " ".join([one.answer, *one.evidence]) for one in others)
    assert not any("chrF" in one.measure for one in text.tests)


def test_noise_alone_decides_nothing(made_study):
    made_study.settings["reference"] = {"strategy": FULL}
    for name, chrf in (("align", 2.0), ("mean", 7.0)):
        made_study.record(cell(name), "mt", "translation", {"chrf": chrf})
    _, _, text = found(made_study)
    assert text.verdict.decision == Decision.UNDECIDED
    assert text.verdict.sentences[1] == "No score above the noise compares it with a baseline."
    assert text.verdict.missing[0].startswith("Scores above the noise")
    assert asked(text, "Which initializer").answer.startswith("Not decided")


def test_each_axis_is_chosen_under_the_choices_before_it(made):
    for name, bits in (("random", 1.8), ("align", 1.4), ("mean", 1.6)):
        made.write(cell(name), bits)
    made.write(cell("align", "expand-1000"), 1.2)
    made.write(cell("random", "expand-1000"), 1.9)
    made.write(cell("align", "expand-1000", "lora-clm-512"), 1.1)
    made.write(cell("align", "expand-500", "lora-clm-512"), 1.9)
    one, _, text = found(made)
    assert vars(one.model) == {"source": "tiny", "vocabulary": "expand-1000",
                               "initializer": "align", "strategy": "lora-clm-512"}  # fmt: skip
    assert one.measured == one.model
    rivals = {choice.axis: len(choice.rivals) for choice in one.choices}
    assert rivals == {"initializer": 3, "vocabulary": 2, "strategy": 2}
    assert text.verdict.sentences[0] == (
        "Graft: use Align with expand-1000, trained with lora-clm-512."
    )


def test_a_combination_that_the_study_has_not_is_said_to_be_none_of_its_cells(made):
    for name, bits in (("align", 1.4), ("mean", 1.6)):
        made.write(cell(name), bits)
    for strategy, bits in ((FULL, 1.6), ("lora-clm-512", 1.2)):
        made.write(cell("mean", "expand-1000", strategy), bits)
    one, _, text = found(made)
    assert one.model.strategy == "lora-clm-512" and one.model.initializer == "align"
    assert one.measured.initializer == "mean"
    assert "is not a cell of the study" in asked(text, "Is it worth it").evidence[0]
    # The verdict is about what was measured.
    assert text.verdict.sentences[0].startswith("Graft: use Mean with expand-1000")
    assert any("combines the choices, Align with" in line for line in text.verdict.missing)


def test_it_says_where_training_without_new_tokens_is_better(made):
    made.write(LAPT, 1.2)
    made.write(cell("align"), 1.4)
    _, _, text = found(made)
    answer = asked(text, "Is it worth it").answer
    assert "Compared with the source model: better." in answer
    assert f"Compared with LAPT ({FULL}): worse." in answer
    assert asked(text, "Which initializer").answer == (
        "Align: the study has no alternative to compare."
    )
    assert text.verdict.decision == Decision.DO_NOT_GRAFT
    assert text.verdict.sentences[0].endswith("is worse than LAPT.")
    assert not text.recommended


def test_it_says_where_nothing_is_gained_at_all(made):
    made.write(cell("align"), 2.0)
    made.write(cell("mean"), 2.4)
    _, _, text = found(made)
    assert text.verdict.sentences[0] == (
        "Not decided: this study does not show that new tokens help."
    )


def test_what_english_loses_and_what_training_takes(made):
    made.write(cell("align"), 1.4, english=1.3)
    made.trained(cell("align"), 2.5, 1.4)  # 60 steps of half a second
    made.vocabulary("te-made", 500, before=253.0, after=71.0)
    _, gained, text = found(made)
    question = asked(text, "What does it cost")
    assert question.answer == (
        "English: worse. Training: 30.0 seconds of x86_64 CPU (30,720 tokens) per cell."
    )
    assert gained.training.hours == pytest.approx(30 / 3600)
    assert gained.english[0].value == pytest.approx(1.3, abs=0.05)
    shorter = asked(text, "How much shorter and faster").answer
    assert shorter == "Tokens per sentence: 253.0 before, 71.0 after."


def test_hours_are_of_all_gpus_together(made):
    made.write(cell("align"), 1.4)
    made.trained(cell("align"), 2.5, 1.4)
    file = made.folder / "training" / "/".join(cell("align")[:5]) / "seed-0/card.json"
    card = json.loads(file.read_text())
    file.write_text(json.dumps(card | {"seconds": 9000.0, "processes": 4, "device": "NVIDIA A100"}))
    _, _, text = found(made)
    assert (
        "10.00 GPU-hours (4 × NVIDIA A100, 30,720 tokens)" in asked(text, "What does it c").answer
    )


def test_speed_is_that_of_a_cell_with_the_same_vocabulary(made):
    made.write(cell("align"), 1.4)
    made.write(cell("mean"), 1.6)
    for one, rate in ((SOURCE, 8.0), (cell("mean"), 20.0)):
        made.record(one, "speed", "speed", {"tokens_per_second_batch_1": 20.0,
                    "same_text_characters_per_second_batch_1": rate})  # fmt: skip
    one, gained, text = found(made)
    assert one.model.initializer == "align"
    assert (gained.speed.ratio, gained.speed.model.initializer) == (2.5, "mean")
    faster = asked(text, "How much shorter and faster")
    assert "2.50 times as fast as the source model" in faster.answer
    assert "Speed was measured on Mean" in faster.evidence[0]


def test_the_command_exports_the_first_seed_of_the_measured_cell(made):
    made.inputs |= {"exports": {}, "snakemake": ["--cores", "1"]}
    for name, bits in (("align", 1.4), ("mean", 1.6)):
        for seed in (1, 0):
            made.write(cell(name, seed=seed), bits)
            made.trained(cell(name, seed=seed), 2.5, bits)
    for folder, axes in made.inputs["training"].items():
        names = "/".join(map(str, axes.values()))
        made.inputs["exports"][folder] = f"results/export/{names}/card.json"
    _, _, text = found(made)
    assert text.export == (
        "snakemake results/export/tiny/te-made/expand-500/align/full-clm-512/0/card.json --cores 1"
    )


def test_a_study_of_baselines_recommends_nothing(made, tmp_path):
    made.write(LAPT, 1.2)
    made.settings["items"] = ["recommendation"]
    result = build_report(made.settings, made.inputs, {"folder": str(tmp_path / "out")})
    assert result["recommendations"] == []
    assert "recommendation" in result["omitted"]
    assert "nothing to recommend" in (tmp_path / "out/recommendation.md").read_text("utf-8")


def test_the_page_is_in_the_report_and_by_itself(built):
    folder, result, _ = built
    texts = [(folder / name).read_text("utf-8")
             for name in ("report.html", "recommendation.html", "recommendation.md")]  # fmt: skip
    for language in ("Telugu, tiny", "Greek, tiny"):
        assert all(language in text for text in texts)
    markdown = texts[2]
    assert markdown.startswith("# Recommendation: A made study\n")
    assert "Benjamini-Hochberg" in markdown
    for caveat in result["caveats"][:2]:
        assert f"- {caveat}" in markdown
    found = {row["language"]: row for row in result["recommendations"]}
    assert [*found] == ["te-made", "el-made"]
    assert found["te-made"]["initializer"] == "align"
    # 1.42 bits per byte against 1.38 of LAPT and 1.62 of the source model.
    assert found["te-made"]["verdict"] == "do not graft"
    choice = found["te-made"]["choices"]["initializer"]
    assert len(choice["compared"]) == 6
    # By bits per byte: 1.61 against 1.42, while seeds differ by about 0.01.
    assert "random" not in choice["tied"]
    assert len(found["te-made"]["choices"]["strategy"]["compared"]) == 4
