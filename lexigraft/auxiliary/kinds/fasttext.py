"""The kind `fasttext`: vectors of tokens that fastText trains on a corpus (FOCUS)."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from lexigraft.auxiliary.language_files import check_fasttext
from lexigraft.auxiliary.registry import AuxiliaryCost, Options, TrainedVectors
from lexigraft.setting_types import Positive, Whole
from lexigraft.settings import optional


class FastText(TrainedVectors):
    """The options and the cost of `train_fasttext`."""

    computed_by: ClassVar = "lexigraft.auxiliary.fasttext.train_fasttext"
    title: ClassVar = "fastText"
    # The default of three epochs on one thread; character n-grams alone take 2.4 GB.
    cost: ClassVar = AuxiliaryCost(megabytes=5000, minutes=60, minutes_per_million_tokens=1)

    kind: Literal["fasttext"] = Field(description="trained on the corpus by fastText")
    model: Literal["cbow", "skipgram"] = optional("training objective")
    dimensions: Whole = optional("width of the vectors")
    window: Whole = optional("maximum number of context tokens on either side")
    negatives: Whole = optional("negative samples per token")
    epochs: Whole = optional("passes over the corpus. A few hundred sentences need tens of passes")
    minimum_count: Whole = optional("tokens that occur less often get no vector")
    learning_rate: Positive = optional("initial learning rate. It decreases to zero")
    subsampling: Positive = optional(
        "tokens with a larger share of the text than this are skipped at random"
    )
    character_ngrams: Annotated[list[Whole], Field(min_length=2, max_length=2)] | None = optional(
        "[shortest, longest] character n-grams of a token's spelling to add, or `null` for none"
    )
    buckets: Whole = optional(
        "hash buckets that these n-grams share, each of 4 × `dimensions` bytes"
    )
    minimum_words: Annotated[int, Field(ge=0)] = optional(
        "sentences with fewer words are dropped. For Thai and Japanese: with fewer characters"
    )

    @classmethod
    def check(cls, settings: Options, where: str) -> None:
        """Check that fastText is installed."""
        check_fasttext(where)
