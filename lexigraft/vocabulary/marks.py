"""Change pre-tokenizers that split words at combining marks so that they no longer do.

GPT-2's pre-tokenizer and its descendants (Llama 3, Qwen, SmolLM) match letters, but not the marks
that belong to them: they split a Telugu letter from its vowel sign, so no token contains both.
"""

import json
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer, models

from lexigraft.errors import UserError, unknown

logger = logging.getLogger(__name__)

MARKS = ("auto", "joined", "apart")

# The regular expression inside the ByteLevel pre-tokenizer of the tokenizers library.
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# A run of letters as these patterns write it; character classes are skipped, not changed.
_LETTERS = re.compile(r"(?P<class>\[(?:\\.|[^\]\\])*\])|\\p\{L\}\+")
# Letters with their marks. Marks that follow no letter, such as the variation selectors of emoji,
# are treated as before. A joiner after a mark is part of a conjunct (Sinhala, Malayalam). Joiners
# are characters here, since notations of code points differ between regular expression engines.
_WITH_MARKS = "\\p{L}+(?:\\p{M}+[\u200c\u200d]?\\p{L}*)*"
# Minimum share of marks among letters and marks. In news: Burmese 52 % marks, Hindi 39 %, Thai 20
# %, Arabic 0.8 %.
_MINIMUM_MARKS = 0.01
_PROBE = "कि"


def cuts_at_marks(backend: Tokenizer) -> bool:
    """Whether the pre-tokenizer splits a letter from a combining mark that follows it."""
    pre_tokenizer = backend.pre_tokenizer
    return pre_tokenizer is not None and len(pre_tokenizer.pre_tokenize_str(_PROBE)) > 1


def joins_marks(backend: Tokenizer) -> bool:
    """Whether the pre-tokenizer has been changed to match letters with their marks."""
    pre_tokenizer = json.dumps(json.loads(backend.to_str())["pre_tokenizer"])
    return json.dumps(_WITH_MARKS)[1:-1] in pre_tokenizer


def is_in_marked_script(texts: Iterable[str]) -> bool:
    """Whether these texts are in a script that uses combining marks."""
    categories: Counter[str] = Counter()
    characters: Counter[str] = Counter()
    for text in texts:
        characters.update(text)
    for character, count in characters.items():
        categories[unicodedata.category(character)[0]] += count
    return categories["M"] > _MINIMUM_MARKS * (categories["L"] + categories["M"])


def pre_tokenization(backend: Tokenizer, marks: str, texts: Iterable[str]) -> Tokenizer:
    """A tokenizer without a model that has the normalizer and pre-tokenizer of an expansion.

    `marks` is `joined`, `apart` or `auto`: joined if the texts are in a script with marks and the
    pre-tokenizer can be changed. A UserError is raised if `joined` is not possible.
    """
    if marks not in MARKS:
        raise unknown("marks", marks, MARKS)
    # Components can be copied and changed only as a part of a tokenizer, in JSON.
    unchanged = Tokenizer(models.BPE())
    if backend.normalizer is not None:
        unchanged.normalizer = backend.normalizer
    if backend.pre_tokenizer is not None:
        unchanged.pre_tokenizer = backend.pre_tokenizer
    unchanged.add_tokens([*backend.get_added_tokens_decoder().values()])
    if marks == "apart" or not cuts_at_marks(backend):
        return unchanged
    if marks == "auto" and not is_in_marked_script(texts):
        return unchanged
    state = json.loads(unchanged.to_str())
    joined = Tokenizer.from_str(
        json.dumps(state | {"pre_tokenizer": _with_marks(state["pre_tokenizer"])})
    )
    if not cuts_at_marks(joined):
        logger.warning(
            "words are no longer cut at combining marks, as is best for this script; llama.cpp "
            "does cut them, so the model cannot be exported as GGUF (marks: apart would allow it)"
        )
        return joined
    if marks == "joined":
        raise UserError(
            "marks: this pre-tokenizer cuts words at combining marks in a way that cannot be "
            "changed (patterns like those of GPT-2, Llama 3 and Qwen can, without "
            "add_prefix_space); set marks: apart"
        )
    logger.warning(
        "the pre-tokenizer cuts words at combining marks, in a way that cannot be changed: no "
        "token will contain a letter with its marks"
    )
    return unchanged


def _with_marks(component: dict[str, Any]) -> dict[str, Any]:
    """A pre-tokenizer in JSON whose patterns of letters, if supported, also match marks."""
    steps = component["pretokenizers"] if component["type"] == "Sequence" else [component]
    joined = [part for step in steps for part in _steps_with_marks(step)]
    return joined[0] if len(joined) == 1 else {"type": "Sequence", "pretokenizers": joined}


def _steps_with_marks(step: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps that replace one step of a pre-tokenizer."""
    # A prefix space would be added to each piece from an earlier step.
    if step["type"] == "ByteLevel" and step["use_regex"] and not step["add_prefix_space"]:
        split = {"type": "Split", "behavior": "Isolated", "invert": False}
        return [split | {"pattern": {"Regex": _join_marks(_GPT2)}}, step | {"use_regex": False}]
    if step["type"] == "Split" and "Regex" in step["pattern"]:
        return [step | {"pattern": {"Regex": _join_marks(step["pattern"]["Regex"])}}]
    return [step]


def _join_marks(pattern: str) -> str:
    return _LETTERS.sub(lambda match: match["class"] or _WITH_MARKS, pattern)
