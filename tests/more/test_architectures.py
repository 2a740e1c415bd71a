"""Every architecture of transformers that builds small: each token keeps all that belongs to it."""

import pytest
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM
from transformers.models.auto import modeling_auto

from lexigraft.errors import UserError
from tests.architectures import check_that_tokens_keep_their_rows, logits, tiny_model
from tests.source.test_auto_tokenizer import TYPES, check_written

CAUSAL = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
MASKED = modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
ALL = [(AutoModelForCausalLM, model_type) for model_type in CAUSAL]
ALL += [(AutoModelForMaskedLM, model_type) for model_type in MASKED]
# What the message for those that cannot be grafted names.
REFUSED = {"cpmant": "input rows", "moshi": "input rows", "ibert": "QuantEmbedding"}


def builds(auto, model_type):
    """Whether small sizes suit the architecture, and it scores a text without further inputs."""
    try:
        return len(logits(tiny_model(auto, model_type, 61), [5, 6, 7])) == 3
    except Exception:
        return False


@pytest.mark.parametrize(("auto", "model_type"), ALL)
def test_each_tensor_with_a_row_per_token_follows_its_token(auto, model_type, tmp_path):
    if not builds(auto, model_type):
        pytest.skip("does not build with these sizes")
    for change in ("expand", "prune"):
        arguments = (auto, model_type, change, tmp_path / change)
        if model_type in REFUSED:
            with pytest.raises(UserError, match=REFUSED[model_type]):
                check_that_tokens_keep_their_rows(*arguments)
        else:
            check_that_tokens_keep_their_rows(*arguments)


def test_a_written_tokenizer_is_the_same_for_models_of_every_type(tmp_path):
    check_written(tmp_path, {"byte-level-bpe": TYPES})
