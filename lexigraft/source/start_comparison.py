"""Compares the tokens that may begin a text by the likelihood of English sentences after each."""

import logging
import math
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast

from lexigraft.source.document_start import beginning_ids, candidates, document_start, surrounding
from lexigraft.source.model import load_config, load_model
from lexigraft.source.positions import context_length

logger = logging.getLogger(__name__)

# Larger models are not measured: sources are prepared where Snakemake runs, such as a login node.
LARGEST = 500_000_000  # parameters
_CANDIDATES = 4  # tokens that are compared
# Short, since the first token matters most at the beginning.
_ENGLISH = (
    "The ferry leaves at half past six, so we should be at the harbour before it gets dark.",
    "Bread dough needs warmth and time, and it rises faster with a little sugar in the yeast.",
    "The committee will publish the results of its inquiry in the second week of November.",
    "She put the letters into a box, closed the lid and carried it up to the attic.",
)


def compare_starts(
    folder: Path, tokenizer: PreTrainedTokenizerFast, source: str, rows: int
) -> dict[str, float]:
    """Bits per byte of English after each token that may begin a text, and after none ("").

    The first token of a text is not counted, since it cannot be predicted without a start. Logs a
    warning if another token than that of `document_start` is better by at least 1 %. Empty if the
    model has too few positions, or weights that are not finite.
    """
    texts = [tokenizer(t, add_special_tokens=False, verbose=False)["input_ids"] for t in _ENGLISH]
    longest = 1 + max(map(len, texts))  # with the start
    if (context_length(load_config(folder)) or longest) < longest:
        return {}
    model = load_model(folder, torch.float32, torch.device("cpu"))
    chosen, vocabulary = document_start(tokenizer), tokenizer.get_vocab()
    starts = {chosen: beginning_ids(tokenizer)}
    for token in candidates(tokenizer):
        if vocabulary[token] < rows and len(starts) < _CANDIDATES:
            starts.setdefault(token, [vocabulary[token]])
    measured = {}
    for token, start in (starts | {"": []}).items():
        nats = 0.0
        for ids in texts:
            with torch.inference_mode():
                logits = model(input_ids=torch.tensor([start + ids]), use_cache=False).logits[0]
            predicted = logits[len(start) : -1]  # of all tokens of the text but the first
            targets = torch.tensor(ids[1:])
            nats += torch.nn.functional.cross_entropy(predicted, targets, reduction="sum").item()
        # Rounded, so that the card does not depend on the number of threads.
        measured[token] = round(nats / math.log(2) / sum(map(len, _ENGLISH)), 3)
    if not all(map(math.isfinite, measured.values())):
        return {}
    best = min(measured, key=measured.__getitem__)
    if measured[best] < 0.99 * measured[chosen]:
        names = [f"'{token}'" if token else "no token" for token in (chosen, best)]
        logger.warning(
            "source %s: texts begin with %s, after which English has %.3f bits per byte, but %.3f "
            "after %s; %s",
            source,
            names[0],
            measured[chosen],
            measured[best],
            names[1],
            "the tokenizer adds this token itself, so check its tokenizer.json"
            if surrounding(tokenizer)[0]
            else f"set document_start: '{best}' in the source's entry",
        )
    return measured
