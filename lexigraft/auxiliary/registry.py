"""Kinds of auxiliaries, which are vectors of tokens that initializers read.

Each file of `kinds/` declares one kind: a subclass of `AuxiliaryKind`. The Snakefile imports these
files, so functions import what needs numpy or torch when they compute vectors.
"""

import os
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, get_args

from lexigraft.auxiliary import kinds
from lexigraft.corpus.mixture import AmountForCell, text_amount_field
from lexigraft.errors import unknown
from lexigraft.settings import Settings

if TYPE_CHECKING:
    from lexigraft.auxiliary.token_vectors import TokenVectors

Options = Mapping[str, Any]
Computed: TypeAlias = "tuple[TokenVectors, dict[str, Any]]"  # vectors, and facts for the card


@dataclass(frozen=True)
class AuxiliaryCost:
    """What a job that computes vectors requests from a cluster.

    Memory and time limit grow with the millions of tokens of the text that the kind trains on. With
    `loads_files`, the size of each `.bin` file that it reads is added to the memory.
    """

    megabytes: int
    minutes: int
    megabytes_per_million_tokens: int = 0
    minutes_per_million_tokens: int = 0
    threads: int = 1
    loads_files: bool = False


class AuxiliaryKind(Settings):
    """A kind of vectors of tokens; a subclass declares the options of its entries as fields.

    The field `kind`, of type `Literal["name"]`, is the name that entries of `auxiliary.yaml` use.

    Attributes
    ----------
    title : str
        The name in texts.
    version : int
        The version of the results: raise it if the same settings give other vectors than before.
    cost : AuxiliaryCost
        Memory and time limit of a job.
    """

    title: ClassVar[str]
    version: ClassVar[int] = 1
    cost: ClassVar[AuxiliaryCost]
    trains: ClassVar[bool] = False  # whether vectors are trained on the `corpus`
    computed_by: ClassVar[str] = ""  # path of a function of the library, if there is one

    kind: str

    @classmethod
    def function(cls) -> Callable[..., Any]:
        """The function `computed_by`, which has the options of an entry as parameters."""
        module, _, name = cls.computed_by.rpartition(".")
        return getattr(import_module(module), name)

    @classmethod
    def reads(cls, settings: Options) -> tuple[str, ...]:
        """Names of the inputs that `compute` needs for an entry with these settings."""
        raise NotImplementedError

    @classmethod
    def check(cls, settings: Options, where: str) -> None:
        """Check what can be checked before a run; the UserError names the key, `where`."""

    @classmethod
    def compute(cls, tokenizer: Any, settings: Options, inputs: Options, seed: int) -> Computed:
        """Compute the vectors of a tokenizer's tokens; also returns facts for the card of a job."""
        raise NotImplementedError


class TrainedVectors(AuxiliaryKind):
    """A kind that trains its `function` on sentences, with the threads that the job has."""

    trains: ClassVar[bool] = True

    text: AmountForCell = text_amount_field("the vectors are trained on")

    @classmethod
    def reads(cls, settings: Options) -> tuple[str, ...]:
        """The sentences, an iterable of texts."""
        return ("corpus",)

    @classmethod
    def compute(cls, tokenizer: Any, settings: Options, inputs: Options, seed: int) -> Computed:
        """Train the vectors with the given options."""
        options = {
            key: value for key, value in settings.items() if key not in ("kind", "text", "corpus")
        }
        if cls.cost.threads > 1:
            options["threads"] = int(os.environ.get("OMP_NUM_THREADS", "1"))
        return cls.function()(tokenizer, inputs["corpus"], **options, seed=seed), {}


@cache
def _registered() -> dict[str, type[AuxiliaryKind]]:
    """The kinds by name: those of the package `kinds`, to which `register` adds others."""
    files = pkgutil.iter_modules(kinds.__path__)
    modules = [import_module(f"{kinds.__name__}.{file.name}") for file in files]
    classes = [value for module in modules for value in vars(module).values()]
    classes_of_kinds = [
        each for each in classes if isinstance(each, type) and issubclass(each, AuxiliaryKind)
    ]
    # The base classes have no name.
    named = [kind for kind in classes_of_kinds if get_args(kind.model_fields["kind"].annotation)]
    return {kind_name(kind): kind for kind in named}


def kind_name(kind: type[AuxiliaryKind]) -> str:
    """The name of a kind in `auxiliary.yaml`.

    Examples
    --------
    >>> kind_name(auxiliary_kind("glove"))
    'glove'
    """
    (name,) = get_args(kind.model_fields["kind"].annotation)
    return str(name)


def register(kind: type[AuxiliaryKind]) -> None:
    """Add a kind from outside `kinds`, such as one of a plug-in."""
    _registered()[kind_name(kind)] = kind


def auxiliary_kinds() -> list[type[AuxiliaryKind]]:
    """All kinds, in alphabetical order of their names."""
    return [kind for _, kind in sorted(_registered().items())]


def auxiliary_kind(name: str) -> type[AuxiliaryKind]:
    """The kind of a name; raises a UserError if there is none."""
    if name not in _registered():
        raise unknown("auxiliary kind", name, _registered())
    return _registered()[name]


def compute_vectors(
    kind: str, tokenizer: Any, settings: Options, inputs: Options, seed: int = 0
) -> Computed:
    """Compute the vectors of a tokenizer's tokens with an auxiliary of a kind, such as `glove`.

    Also returns facts for a card. `settings` are options of the kind. `inputs` are what its `reads`
    names: `corpus`, an iterable of texts; `word_vectors`, `english_word_vectors` and `dictionary`,
    paths; `model`, a name on the hub or a folder; `encoder`, see `SentenceEncoder`.
    """
    return auxiliary_kind(kind).compute(tokenizer, settings, inputs, seed)
