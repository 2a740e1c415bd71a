"""Whether a study recommends a model: never one that is shown to be worse than a baseline."""

import shlex
from itertools import product
from types import SimpleNamespace

import pytest

from lexigraft.report.models import Model
from lexigraft.report.recommendation import Gains, Recommendation, ScoreChange
from lexigraft.report.verdict import Decision, judge

SOURCE = Model("m", "source", "none", "none")
LAPT = Model("m", "source", "none", "full")
GRAFTED = Model("m", "big", "align", "full")
BITS, CHRF = ("te", "ppl", "bits_per_byte"), ("te", "mt", "chrf")
BETTER, WORSE, SAME, UNTESTED = "better", "worse", "no significant difference", "not tested"


def change(baseline, verdict, column=BITS, value=1.4, level=None):
    """A change with this verdict; where it is not decided, the interval reaches three times as far
    as zero is."""
    lower = column[2] == "bits_per_byte"
    better = verdict != WORSE
    level = level or value + (0.1 if better == lower else -0.1)
    test = None
    if verdict != UNTESTED:
        difference = value - level
        reach = abs(difference) * (3 if verdict == SAME else 0.5)
        test = SimpleNamespace(value=difference, low=difference - reach, high=difference + reach,
                               corrected=0.5 if verdict == SAME else 0.001, examples=100,
                               freedom=0)  # fmt: skip
    one = ScoreChange(baseline, column, value, level, test)
    assert one.verdict == verdict
    return one


def verdict(*changes, shorter=True, curve=(), seeds=(0, 1)):
    row = {"new_tokens": 500, "tokens_per_sentence_before": 90.0,
           "tokens_per_sentence_after": 30.0 if shorter else 90.0}  # fmt: skip
    columns = list(dict.fromkeys(one.column for one in changes))
    found = Recommendation("te", GRAFTED, GRAFTED, [], columns, [], {"big": row})
    import pandas

    curves = pandas.DataFrame(
        [{**GRAFTED.keys(), "language": "te", "event": "heldout", "step": at, "tokens": tokens,
          "bits_per_byte": level} for at, (tokens, level) in enumerate(curve)]
    )  # fmt: skip
    study = SimpleNamespace(curves=curves, seeds=seeds)
    return judge(study, found, Gains([*changes], [], None, None, None))


@pytest.mark.parametrize(
    ("source", "lapt", "decision"),
    [
        (BETTER, BETTER, Decision.GRAFT),
        (BETTER, SAME, Decision.GRAFT),
        (BETTER, UNTESTED, Decision.UNDECIDED),
        (SAME, BETTER, Decision.UNDECIDED),
        (SAME, SAME, Decision.UNDECIDED),
        (UNTESTED, UNTESTED, Decision.UNDECIDED),
        (WORSE, BETTER, Decision.DO_NOT_GRAFT),
        (BETTER, WORSE, Decision.DO_NOT_GRAFT),
    ],
)
def test_the_decision_follows_from_both_baselines(source, lapt, decision):
    assert verdict(change(SOURCE, source), change(LAPT, lapt)).decision == decision


def test_what_is_worse_than_a_baseline_is_never_recommended():
    every = (BETTER, WORSE, SAME, UNTESTED)
    for source, lapt in product(every, every):
        found = verdict(change(SOURCE, source), change(LAPT, lapt))
        if WORSE in (source, lapt):
            assert found.decision == Decision.DO_NOT_GRAFT
            assert found.sentences[0].startswith("Do not graft with this budget: ")
        assert not any("recommend" in text for text in (*found.sentences, *found.missing))


def test_the_sentences_name_the_baselines_that_are_better_and_the_scores():
    found = verdict(change(SOURCE, BETTER), change(LAPT, WORSE))
    assert found.sentences == (
        "Do not graft with this budget: Align with 500 new tokens, the best configuration of this "
        "study, is worse than LAPT.",
        "It reaches 1.400 bits per byte (lower is better), against 1.500 for the source model and "
        "1.300 for LAPT, and the same text has 3.0 times fewer tokens.",
    )


def test_a_model_that_is_better_is_named_with_what_to_train():
    found = verdict(change(SOURCE, BETTER), change(LAPT, BETTER))
    assert found.sentences[0] == "Graft: use Align with 500 new tokens, trained with full."
    assert found.missing == []


def test_what_may_be_well_behind_lapt_is_not_recommended():
    # 0.1 of 1.3 bits behind; the interval reaches from far behind to ahead.
    behind = change(LAPT, SAME, value=1.4, level=1.3)
    found = verdict(change(SOURCE, BETTER), behind)
    assert found.decision == Decision.UNDECIDED
    assert found.sentences[0] == (
        "Not decided: Align with 500 new tokens is better than the source model, but not shown to "
        "be as good as LAPT."
    )
    hardly = change(LAPT, SAME, value=1.4, level=1.39)
    assert verdict(change(SOURCE, BETTER), hardly).decision == Decision.GRAFT


def test_as_good_as_lapt_is_enough_where_text_gets_shorter_and_only_there():
    changes = change(SOURCE, BETTER), change(LAPT, SAME)
    assert verdict(*changes).decision == Decision.GRAFT
    assert verdict(*changes, shorter=False).decision == Decision.UNDECIDED


def test_better_on_one_task_and_worse_on_another_depends_on_the_task():
    found = verdict(change(SOURCE, BETTER), change(SOURCE, WORSE, CHRF, 20.0))
    assert found.decision == Decision.TRADE_OFF
    assert found.sentences[0] == (
        "It depends on the task: compared with the source model, Align with 500 new tokens is "
        "better on bits per byte (ppl) and worse on chrF (mt)."
    )


def test_without_lapt_it_says_that_training_alone_may_do():
    found = verdict(change(SOURCE, BETTER))
    assert found.sentences[1].endswith("whether training alone (LAPT) does as well is not known.")
    assert found.missing == [
        "A baseline, training alone (LAPT): cells with `vocabularies: [source]`, "
        "`initializers: [none]`, `strategies: [full]`."
    ]


def test_where_the_curve_still_falls_it_says_how_many_tokens_are_missing():
    # 0.2 bits in the second 10,000 tokens, few of them at the end, and 0.1 to go.
    changes = change(SOURCE, BETTER), change(LAPT, WORSE)
    curve = [(0, 2.0), (10_000, 1.6), (15_000, 1.41), (20_000, 1.4)]
    (missing,) = verdict(*changes, curve=curve).missing
    assert missing.startswith(
        "Training tokens: held-out bits per byte still fell in the second half of training, from "
        "1.60 after 10,000 tokens to 1.40 after 20,000. At this pace it would take at least 5,000 "
        "more to reach LAPT"
    )


def test_the_tokens_that_are_missing_are_those_of_the_text_of_the_curve():
    law = change(LAPT, WORSE, ("te", "law", "bits_per_byte"), value=2.4, level=1.4)
    changes = change(SOURCE, BETTER), change(LAPT, WORSE), law
    (missing,) = verdict(*changes, curve=[(0, 2.0), (10_000, 1.6), (20_000, 1.4)]).missing
    assert "at least 5,000 more to reach LAPT" in missing


def test_where_the_curve_is_flat_more_training_is_not_what_is_missing():
    changes = change(SOURCE, BETTER), change(LAPT, WORSE)
    (missing,) = verdict(*changes, curve=[(0, 2.0), (10_000, 1.401), (20_000, 1.4)]).missing
    assert missing.startswith("Another strategy or vocabulary rather than more training")
    assert missing.endswith("in the second half, from 10,000 to 20,000 tokens.")


def test_a_difference_that_may_be_chance_says_how_many_examples_would_show_it():
    # The interval reaches three times as far as zero: nine times the examples make it a third.
    found = verdict(change(SOURCE, SAME), change(LAPT, BETTER), seeds=(0,))
    assert found.sentences[1].endswith("; the difference from the source model may be chance.")
    assert found.missing == [
        "Test examples, to distinguish it from the source model by bits per byte (ppl): about 900 "
        "instead of 100.",
        "A second seed: the variation of scores between seeds is unknown.",
    ]


def test_the_command_that_exports_is_one_that_snakemake_takes(tmp_path):
    from snakemake.cli import get_argument_parser

    from workflow.stages.report import command_arguments

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


def test_a_study_of_the_snakefile_at_hand_needs_no_more_than_cores(tmp_path):
    from workflow.stages.report import command_arguments

    assert command_arguments(tmp_path / "Snakefile", [], [], tmp_path) == ["--cores", "1"]
