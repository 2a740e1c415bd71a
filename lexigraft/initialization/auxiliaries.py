"""What methods are given beside the two tokenizers and the corpus: auxiliaries, each in a role."""

from collections.abc import Mapping
from typing import Any

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.initialization.pairing import VocabularyPair

# `target`: vectors of the target's tokens; `source`: of the source's; what else a method calls its
# own. A single auxiliary is the target's.
Roles = Mapping[str, Any]


def by_role(auxiliary: Any) -> Roles:
    """Auxiliaries by role, of whatever a caller of `fit` gave."""
    if auxiliary is None:
        return {}
    return auxiliary if isinstance(auxiliary, Mapping) else {"target": auxiliary}


def target_vectors(
    method: str, auxiliary: Roles, pair: VocabularyPair, role: str = "target"
) -> TokenVectors:
    """Vectors of target tokens that a method cannot do without.

    Raises
    ------
    UserError
        There are none in this role, or they are of another tokenizer.
    """
    return _vectors(method, auxiliary, role, "target", len(pair.target_bytes))


def source_vectors(
    method: str, auxiliary: Roles, pair: VocabularyPair, role: str = "source"
) -> TokenVectors:
    """Vectors of source tokens that a method cannot do without, see `target_vectors`."""
    return _vectors(method, auxiliary, role, "source", len(pair.source_bytes))


def _vectors(method: str, auxiliary: Roles, role: str, side: str, size: int) -> TokenVectors:
    found = auxiliary.get(role)
    if not isinstance(found, TokenVectors):
        raise UserError(
            f"initializer '{method}': it needs vectors of the {side}'s tokens as auxiliary "
            f"'{role}'; name one in its config entry, or call fit(…, auxiliary={{'{role}': …}}) "
            "with what lexigraft.auxiliary makes of that tokenizer"
        )
    if len(found.tokens) and found.tokens[-1] >= size:
        raise UserError(
            f"auxiliary '{role}': it has a vector of token {found.tokens[-1]}, the {side} "
            f"tokenizer has {size} tokens; give vectors made with this tokenizer"
        )
    return found
