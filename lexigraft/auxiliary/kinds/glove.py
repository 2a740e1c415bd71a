"""The kind `glove`: vectors of tokens that GloVe trains on a corpus (UnifyVocab)."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from lexigraft.auxiliary.registry import AuxiliaryCost, TrainedVectors
from lexigraft.setting_types import Name, Positive, Whole
from lexigraft.settings import optional


class Glove(TrainedVectors):
    """The options and the cost of `train_glove`."""

    computed_by: ClassVar = "lexigraft.auxiliary.glove.train_glove"
    title: ClassVar = "GloVe"
    # 40 bytes and fifteen updates for each pair of co-occurring tokens: 30,000 sentences of 40
    # tokens have at most 36 million pairs, and larger texts are assumed to have 1.5 per token.
    cost: ClassVar = AuxiliaryCost(
        megabytes=4000,
        minutes=120,
        megabytes_per_million_tokens=60,
        minutes_per_million_tokens=1,
        threads=4,
    )

    kind: Literal["glove"] = Field(description="trained on the corpus by GloVe")
    corpus: Name = optional(
        "a language or group of languages.yaml on whose text the vectors are trained. By default "
        "that of the cell"
    )
    dimensions: Whole = optional("width of the vectors")
    window: Whole = optional("context tokens on either side; a token at distance d counts 1/d")
    epochs: Whole = optional("passes over the pairs of tokens")
    minimum_count: Whole = optional("tokens that occur less often get no vector")
    x_max: Positive = optional(
        "pairs with count x have weight (x / `x_max`)^`alpha`, and 1 from `x_max` on"
    )
    alpha: Annotated[float, Field(ge=0)] = optional("see `x_max`")
    learning_rate: Positive = optional("learning rate of AdaGrad")
