"""Initializers, and the vectors of tokens that they read."""

from typing import Annotated, Any, Literal

from pydantic import Field, Tag

from lexigraft.corpus.amounts import TextAmount
from lexigraft.settings import Settings, by_shape, optional
from workflow.config.sources import Encoder, Positive
from workflow.config.texts import Chosen, LocalPath, Name, Unique, Whole, Words, amount_read


class FastText(Settings):
    """Static vectors of tokens, trained on the corpus by fastText."""

    kind: Literal["fasttext"] = Field(description="trained on the corpus by fastText")
    text: TextAmount = amount_read("the vectors are trained on")
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


class Glove(Settings):
    """Static vectors of tokens, trained on the corpus by GloVe."""

    kind: Literal["glove"] = Field(description="trained on the corpus by GloVe")
    corpus: Name = optional(
        "a language or group of languages.yaml on whose text the vectors are trained. By default "
        "that of the cell"
    )
    text: TextAmount = amount_read("the vectors are trained on")
    dimensions: Whole = optional("width of the vectors")
    window: Whole = optional("context tokens on either side; a token at distance d counts 1/d")
    epochs: Whole = optional("passes over the pairs of tokens")
    minimum_count: Whole = optional("tokens that occur less often get no vector")
    x_max: Positive = optional(
        "pairs with count x have weight (x / `x_max`)^`alpha`, and 1 from `x_max` on"
    )
    alpha: Annotated[float, Field(ge=0)] = optional("see `x_max`")
    learning_rate: Positive = optional("learning rate of AdaGrad")


class WordVectors(Settings):
    """Vectors from files, of the words that tokens spell or are parts of."""

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


class ModelEmbeddings(Settings):
    """Input embeddings of a model whose tokenizer is the target's."""

    kind: Literal["plm"] = Field(
        description="input embeddings of a model whose tokenizer is the target's"
    )
    plm: Words = Field(description="a name in languages.<language>.plms")


class SentenceVectors(Encoder):
    """Vectors of the texts of tokens from a sentence encoder."""

    kind: Literal["sentence-encoder"] = Field(
        description="vectors of each token's text from a sentence encoder"
    )


Auxiliary = Chosen[FastText, Glove, WordVectors, ModelEmbeddings, SentenceVectors]


class InitializerConfig(Settings):
    """A method that initializes the embeddings of new tokens."""

    method: str = Field(
        description="a file of lexigraft/initialization/methods, such as `align` ([all of them]"
        "(../docs/methods.md#initializers))"
    )
    auxiliary: (
        Annotated[
            Annotated[str, Tag("@text")] | Annotated[dict[str, str], Tag("@mapping")],
            by_shape("needs an entry of auxiliary.yaml, or several by role"),
        ]
        | None
    ) = Field(
        None,
        description="an entry of auxiliary.yaml that the method reads, or one for each role, such "
        "as `{target: glove, source: glove}`. A single entry has the role `target`. `source` is "
        "computed for the source's own tokens, every other role for the tokens of the cell's "
        "vocabulary",
    )
    dictionary: bool = Field(
        False,
        description="whether the method reads the language's `dictionary`. `cw2v` can read it; "
        "`dictionary-alignment` needs it, or pairs of `samples`",
    )
    samples: Name | None = Field(
        None,
        description="the language's `samples` of kind `parallel` whose pairs `transtokenizers` "
        "aligns, or `dictionary-alignment` uses as its dictionary; no pair is part of a test",
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="keyword arguments of the method"
    )
    languages: Annotated[list[str], Field(min_length=1), Unique] = optional(
        "codes of the languages that the method distinguishes, as a multilingual hypernetwork "
        "does: its option `language` is the code of the cell's language, unless `options` sets it"
    )
    text: TextAmount = amount_read("the method reads")
    draws: bool = Field(
        False, description="whether the method draws at random. It is then fitted once per seed"
    )
