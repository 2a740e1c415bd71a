"""What a study recommends: decided where examples decide, and honest where they do not."""

import json
import math
import random
import re
import shlex

import pytest

from lexigraft.report.frame import Model
from lexigraft.report.page import build_report
from lexigraft.report.pages.recommendation import (
    Change,
    Decision,
    Recommendation,
    _section,
    recommend,
)
from lexigraft.report.records import read_study

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
        rows, metrics = [], {}
        for test, mean, prefix in (("heldout", bits, ""), ("english", english, "english_")):
            nats = []
            for at in range(60):
                draw = random.Random(repr((test, at, cell)))
                value = mean * (1 + 0.02 * draw.gauss(0, 1)) + random.Random(at).gauss(0, 0.1)
                nats.append(value * 50 * math.log(2))
            rows += [{"id": f"{test}-{at}", "test": test, "bytes": 50, "tokens": 20, "nats": value}
                     for at, value in enumerate(nats)]  # fmt: skip
            metrics[f"{prefix}bits_per_byte"] = sum(nats) / (50 * 60) / math.log(2)
        made_study.record(cell, "ppl", "perplexity", metrics, predictions=rows if keep else None)

    made_study.write = write
    write(SOURCE, 2.0)
    return made_study


def recommended(made):
    """The recommendation of a study, and the variables of its text."""
    study = read_study(made.settings, made.inputs)
    (recommendation,) = recommend(study)
    return recommendation, _section(study, recommendation)


def answer_to(text, beginning):
    """The answer and the evidence of a question."""
    return next(rest for title, *rest in text["questions"] if title.startswith(beginning))


def test_the_initializer_that_is_shown_to_be_better_is_chosen_or_all_are_named(made):
    for name, bits in (("random", 1.8), ("align", 1.4), ("mean", 1.6)):
        made.write(cell(name), bits)
    recommendation, text = recommended(made)
    assert recommendation.model.initializer == "align"
    assert recommendation.choices[0].tied == []
    assert recommendation.decision == Decision.GRAFT
    answer, evidence = answer_to(text, "Which initializer")
    assert answer == "Align, better than Mean and Random."
    # The better of the others first.
    assert re.search(r"Align 1\.\d+; better than Mean 1\.\d+, Random 1\.\d+\.", evidence[0])
    # Those that are not shown to differ are all named.
    made.write(cell("merge"), 1.4)
    recommendation, text = recommended(made)
    choice = recommendation.choices[0]
    assert {model.initializer for model in (choice.chosen, *choice.tied)} == {"align", "merge"}
    answer, evidence = answer_to(text, "Which initializer")
    assert answer.startswith("Not decided: ")
    assert re.search(
        r"; no significant difference from \w+ 1\.\d+; better than Mean 1", evidence[0]
    )


def test_without_outputs_nothing_is_decided(made):
    made.write(cell("align"), 1.4, keep=False)
    made.write(cell("mean"), 1.9, keep=False)
    recommendation, text = recommended(made)
    assert recommendation.model.initializer == "align"
    assert [model.initializer for model in recommendation.choices[0].tied] == ["mean"]
    assert re.search(r"not tested against Mean 1\.\d+", answer_to(text, "Which initializer")[1][0])
    assert recommendation.decision == Decision.UNDECIDED


def test_the_configuration_with_the_best_mean_rank_is_chosen(made):
    for name, bits, words in (("align", 1.4, 40), ("mean", 1.8, 44)):
        made.write(cell(name), bits)
        for task in ("qa", "sum"):
            draw = random.Random(repr((name, task)))
            rows = [{"id": str(at), "rouge_l": words + draw.gauss(0, 2)} for at in range(50)]
            mean = sum(row["rouge_l"] for row in rows) / 50
            made.record(cell(name), task, "summarization", {"rouge_l": mean}, predictions=rows)
    # A cell without a score excludes no measure of the others.
    made.record(cell("merge"), "speed", "speed", {"tokens_per_second_batch_1": 20.0})
    recommendation, text = recommended(made)
    assert recommendation.model.initializer == "mean"
    assert answer_to(text, "Which initializer")[0] == "Mean, better than Align on some measures."


def test_scores_that_are_noise_have_no_influence(made):
    for name, bits, chrf in (("align", 1.4, 2.0), ("mean", 1.8, 7.0)):
        made.write(cell(name), bits)
        made.record(cell(name), "mt", "translation", {"chrf": chrf})
    recommendation, text = recommended(made)
    assert recommendation.model.initializer == "align"
    assert [task for _, task, _ in recommendation.noise] == ["mt"]
    assert any("chrF (mt)" in line for line in answer_to(text, "How certain")[1])


def test_each_question_compares_configurations_that_differ_in_one_axis(made):
    for name, bits in (("random", 1.8), ("align", 1.4), ("mean", 1.6)):
        made.write(cell(name), bits)
    made.write(cell("align", "expand-1000"), 1.2)
    made.write(cell("random", "expand-1000"), 1.9)
    made.write(cell("align", "expand-1000", "lora-clm-512"), 1.1)
    made.write(cell("align", "expand-500", "lora-clm-512"), 1.9)
    recommendation, text = recommended(made)
    assert recommendation.model == Model("tiny", "expand-1000", "align", "lora-clm-512")
    others = {choice.axis: len(choice.others) for choice in recommendation.choices}
    assert others == {"initializer": 2, "vocabulary": 1, "strategy": 1}
    assert text["verdict"][0] == "Graft: use Align with expand-1000, trained with lora-clm-512."


def test_a_cell_that_is_worse_than_lapt_is_not_recommended(made):
    made.write(LAPT, 1.2)
    made.write(cell("align"), 1.4)
    recommendation, text = recommended(made)
    answer, _ = answer_to(text, "Is it worth it")
    assert "Compared with the source model: better." in answer
    assert f"Compared with LAPT ({FULL}): worse." in answer
    assert recommendation.decision == Decision.DO_NOT_GRAFT
    assert text["verdict"][0].endswith("is worse than LAPT.")
    assert not text["recommended"]


def test_the_costs_are_english_and_training_and_the_gain_is_shorter_and_faster_text(made):
    made.write(cell("align"), 1.4, english=1.3)
    made.write(cell("mean"), 1.6)
    made.trained(cell("align"), 2.5, 1.4)  # 60 steps of half a second
    made.vocabulary("te-made", 500, before=253.0, after=71.0)
    for measured, rate in ((SOURCE, 8.0), (cell("mean"), 20.0)):
        made.record(measured, "speed", "speed", {"tokens_per_second_batch_1": 20.0,
                    "same_text_characters_per_second_batch_1": rate})  # fmt: skip
    _, text = recommended(made)
    assert answer_to(text, "What does it cost")[0] == (
        "English: worse. Training: 0.5 minutes of x86_64 CPU (30,720 tokens) per cell."
    )
    shorter, _ = answer_to(text, "How much shorter and faster")
    assert shorter.startswith("Tokens per sentence: 253.0 before, 71.0 after. ")
    assert "2.50 times as fast as the source model" in shorter
    file = made.folder / "training" / "/".join(cell("align")[:5]) / "seed-0/card.json"
    card = json.loads(file.read_text())
    file.write_text(json.dumps(card | {"seconds": 9000.0, "processes": 4, "device": "NVIDIA A100"}))
    answer, _ = answer_to(recommended(made)[1], "What does it cost")
    assert "10.00 GPU-hours on 4 × NVIDIA A100 (30,720 tokens)" in answer


def test_the_command_exports_the_first_seed_of_the_measured_cell(made):
    made.inputs |= {"exports": {}, "snakemake": ["--cores", "1"]}
    for name, bits in (("align", 1.4), ("mean", 1.6)):
        for seed in (1, 0):
            made.write(cell(name, seed=seed), bits)
            made.trained(cell(name, seed=seed), 2.5, bits)
    for folder, axes in made.inputs["training"].items():
        names = "/".join(map(str, axes.values()))
        made.inputs["exports"][folder] = f"results/export/{names}/card.json"
    assert recommended(made)[1]["export"] == (
        "snakemake results/export/tiny/te-made/expand-500/align/full-clm-512/0/card.json --cores 1"
    )


def test_a_study_of_baselines_recommends_nothing(made, tmp_path):
    made.write(LAPT, 1.2)
    made.settings["items"] = ["recommendation"]
    result = build_report(made.settings, made.inputs, {"folder": str(tmp_path / "out")})
    assert result["recommendations"] == []
    assert "recommendation" in result["omitted"]
    assert "nothing to recommend" in (tmp_path / "out/recommendation.md").read_text("utf-8")


def test_the_recommendation_is_in_the_report_and_on_its_own_page(built):
    folder, result, _ = built
    texts = [(folder / name).read_text("utf-8")
             for name in ("report.html", "recommendation.html", "recommendation.md")]  # fmt: skip
    for language in ("Telugu, tiny", "Greek, tiny"):
        assert all(language in text for text in texts)
    assert texts[2].startswith("# Recommendation: A made study\n")
    assert all(f"- {caveat}" in texts[2] for caveat in result["caveats"][:2])
    rows = {row["language"]: row for row in result["recommendations"]}
    assert [*rows] == ["te-made", "el-made"]
    # 1.42 bits per byte against 1.38 of LAPT and 1.62 of the source model.
    assert (rows["te-made"]["initializer"], rows["te-made"]["verdict"]) == ("align", "do not graft")
    choice = rows["te-made"]["choices"]["initializer"]
    assert len(choice["compared"]) == 6
    # By bits per byte: 1.61 against 1.42, while seeds differ by about 0.01.
    assert "random" not in choice["tied"]


BETTER, WORSE, SAME, UNTESTED = "better", "worse", "no significant difference", "not tested"


def decision(source, lapt=None, level=1.3999, shorter=True):
    """The decision on a cell with 1.4 bits per byte, by its outcomes against both baselines."""
    column, graft = ("te", "ppl", "bits_per_byte"), Model("m", "big", "align", "full")
    changes = [Change(Model("m", "source", "none", "none"), column, 1.4, 1.5, source)]
    if lapt:
        changes.append(Change(Model("m", "source", "none", "full"), column, 1.4, level, lapt))
    sizes = {"tokens_per_sentence_before": 90.0, "tokens_per_sentence": 30.0 if shorter else 90.0}
    return Recommendation("te", graft, [], [], [], {"big": sizes}, changes, []).decision


@pytest.mark.parametrize(
    ("source", "lapt", "expected"),
    [
        (BETTER, BETTER, Decision.GRAFT),
        (BETTER, None, Decision.GRAFT),
        (BETTER, SAME, Decision.GRAFT),
        (BETTER, UNTESTED, Decision.UNDECIDED),
        (SAME, BETTER, Decision.UNDECIDED),
        (SAME, SAME, Decision.UNDECIDED),
        (UNTESTED, UNTESTED, Decision.UNDECIDED),
        (WORSE, BETTER, Decision.DO_NOT_GRAFT),
        (BETTER, WORSE, Decision.DO_NOT_GRAFT),
        (WORSE, UNTESTED, Decision.DO_NOT_GRAFT),
    ],
)
def test_the_decision_follows_from_both_baselines(source, lapt, expected):
    assert decision(source, lapt) == expected


def test_as_good_as_lapt_is_hardly_behind_and_enough_only_where_text_gets_shorter():
    # 0.1 of 1.3 bits behind, and 0.01 of 1.39.
    assert decision(BETTER, SAME, level=1.3) == Decision.UNDECIDED
    assert decision(BETTER, SAME, level=1.39) == Decision.GRAFT
    assert decision(BETTER, SAME, shorter=False) == Decision.UNDECIDED


def test_the_command_that_exports_is_one_that_snakemake_takes(tmp_path):
    from snakemake.cli import get_argument_parser

    from workflow.inputs.report import command_arguments

    study = tmp_path / "my study.yaml"
    study.write_text("study: mine\n")
    arguments = command_arguments(tmp_path / "clone/Snakefile", [study], ["results=out"], tmp_path)
    command = shlex.join(["snakemake", "out/export/m/te/card.json", *arguments])
    args = get_argument_parser(profiles=[]).parse_args(shlex.split(command)[1:])
    # `--configfile FILE TARGET` would take the target for a second file.
    assert args.targets == ["out/export/m/te/card.json"]
    assert [str(file) for file in args.configfile] == ["my study.yaml"]
    assert args.config == ["results=out"]
    assert str(args.snakefile) == str(tmp_path / "clone/Snakefile")
    assert command_arguments(tmp_path / "Snakefile", [], [], tmp_path) == ["--cores", "1"]
