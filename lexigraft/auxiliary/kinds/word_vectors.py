"""The kind `word-vectors`: vectors of the words that tokens spell, read from files.

WECHSEL, OFA, SALT and the FOCUS variant of Yamaguchi et al. use such vectors.
"""

from typing import Any, ClassVar, Literal

from pydantic import Field

from lexigraft.auxiliary.language_files import read_dictionary
from lexigraft.auxiliary.registry import AuxiliaryCost, AuxiliaryKind, Computed, Options
from lexigraft.setting_types import LocalPath
from lexigraft.settings import optional

_OPTIONS = ("unlisted_words", "pooling", "notation")  # of `read_word_vectors`


class WordVectors(AuxiliaryKind):
    """Vectors from files, of the words that tokens spell or are parts of."""

    computed_by: ClassVar = "lexigraft.auxiliary.word_vectors.read_word_vectors"
    title: ClassVar = "word vectors"
    cost: ClassVar = AuxiliaryCost(megabytes=2000, minutes=30, loads_files=True)

    kind: Literal["word-vectors"] = Field(description="read from files that the language names")
    of: Literal["target", "english"] = optional(
        "`target` reads the language's `word_vectors`, `english` its `english_word_vectors`"
    )
    path: LocalPath | None = optional("one file for all languages, instead of these")
    unlisted_words: bool = optional(
        "compute vectors of words that the `.bin` file does not list from their n-grams"
    )
    pooling: Literal["frequency", "uniform"] | None = optional(
        "`null`: the vector of the word that a token spells; `uniform`: the mean over all words "
        "of the file that contain the token; `frequency`: the same, weighted by the frequency of "
        "the words, which only a `.bin` file has"
    )
    notation: Literal["plain", "colexnet"] = optional(
        "notation of the words in a file that is pooled. `colexnet` writes `deu:$haus$`"
    )
    aligned_by: Literal["dictionary", "dictionary-as-published"] | None = optional(
        "`dictionary` rotates the vectors into the space of the English ones with the language's "
        "`dictionary`; `dictionary-as-published` counts pairs, and equal forms of them, as often "
        "as they occur, as WECHSEL's code does"
    )

    @classmethod
    def reads(cls, settings: Options) -> tuple[str, ...]:
        """A file of word vectors and, to align these, English word vectors and a dictionary."""
        aligned = ("english_word_vectors", "dictionary") if settings.get("aligned_by") else ()
        return ("word_vectors", *aligned)

    @classmethod
    def compute(cls, tokenizer: Any, settings: Options, inputs: Options, seed: int) -> Computed:
        """Read the vectors and rotate them if they are to be aligned."""
        from lexigraft.auxiliary.word_vector_files import open_word_vectors
        from lexigraft.auxiliary.word_vectors import align_vectors, read_word_vectors

        file = open_word_vectors(inputs["word_vectors"])
        options = {key: value for key, value in settings.items() if key in _OPTIONS}
        vectors = read_word_vectors(tokenizer, file, **options)
        facts: dict[str, Any] = {}
        if aligned_by := settings.get("aligned_by"):
            repeated = aligned_by == "dictionary-as-published"
            pairs = read_dictionary(inputs["dictionary"], repeated)
            english = inputs["english_word_vectors"]
            vectors, pairs_used = align_vectors(vectors, file, english, pairs, repeated)
            facts = {"pairs": len(pairs), "pairs_used": pairs_used}
        return vectors, facts
