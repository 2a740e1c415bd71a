"""CPU time and memory of each initializer and its public implementation on the same input.

Public implementations: deepfocus for focus, wechsel for wechsel, mergekit for omp and mean (all in
envs/oracles.txt). align, which reads the text, is compared with tokenizing it once with both
tokenizers. The target is a byte-level BPE trained on the text, which replaces the source's
vocabulary, so that implementations that recompute every row have little extra work. Both sides get
the same tokenizers, matrix and vectors, and each runs in a separate process with one thread.
Loading and importing are not counted. Token vectors are random, since neither time nor memory
depends on their values.
"""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.inputs import add_options, opened
from benchmarks.measuring import in_its_own_process, measured
from benchmarks.record import Measurements, described, parser, rounds
from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.evaluation.texts import lines_of
from lexigraft.inference.text_encoding import tokenize
from lexigraft.initialization.pairing import pair_vocabularies
from lexigraft.initialization.registry import initializer
from lexigraft.source.matrices import read_matrices
from lexigraft.source.tokenizer import load_tokenizer
from lexigraft.vocabulary.train import train_tokenizer
from workflow.config.initializers import InitializerConfig
from workflow.config.registries import entries_of

NAME = "initialization"
DIMENSIONS, DONOR_DIMENSIONS = 300, 768
# The time of those learned by gradient descent depends on their options alone; zett needs a
# checkpoint, and there are no translations here.
LEFT_OUT = ("cw2v", "dictionary-alignment", "distill", "transtokenizers", "zett")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each initializer and its public implementation."""
    options = _parser().parse_args(arguments)
    with opened(options) as given, TemporaryDirectory() as place:
        source = load_tokenizer(given.source)
        target = train_tokenizer(lines_of(Path(given.text)), "byte-level-bpe", options.size, source)
        target.save_pretrained(place)
        new = len(pair_vocabularies(source, target).new_ids)
        sizes = {"size": options.size, "new_tokens": new, **given.facts}
        run = described("deepfocus", "wechsel", "mergekit", **sizes)
        found = Measurements(options, NAME, run, keys=1, order=[(name,) for name in entries()])
        for (name,) in rounds(options, options.names or entries()):
            method = entries()[name].method
            # Variants have the same public implementation.
            other = PUBLIC[method][0] if name == method and method in PUBLIC else None
            inputs = name, given.source, place, given.text
            own = in_its_own_process(NAME, "--work", "own", *inputs, threads=1)
            beside = {}
            if other:
                beside = in_its_own_process(NAME, "--work", "other", *inputs, threads=1)
            if not found.note_errors(name, own, beside):
                took = {"cpu": own["cpu"], "mib": own["mib"], "other": other}
                others = {"other_cpu": beside.get("cpu"), "other_mib": beside.get("mib")}
                found.add({"initializer": name, **took, **others})
    found.end()


@cache
def entries() -> dict[str, InitializerConfig]:
    """Registry entries whose cost is that of an algorithm on the input."""
    found = entries_of("initializers")
    return {name: entry for name, entry in found.items() if entry.method not in LEFT_OUT}


def vectors(entry: InitializerConfig, source: Any, target: Any) -> dict[str, TokenVectors]:
    """Random vectors of all ordinary tokens, by the roles of an entry."""
    made = {}
    for number, (role, auxiliary) in enumerate(entry.auxiliary.items()):
        tokenizer = source if role == "source" else target
        ids = np.array(sorted(tokenizer.get_vocab().values()), dtype=np.int64)
        ids = ids[~np.isin(ids, tokenizer.all_special_ids)]
        width = DONOR_DIMENSIONS if "plm" in auxiliary else DIMENSIONS
        draws = np.random.default_rng(number)
        made[role] = TokenVectors(ids, draws.standard_normal((len(ids), width), np.float32))
    return made


def work(who: str, name: str, folder: str, place: str, text: str) -> None:
    """Run one measurement in this process and print it."""
    source, target = load_tokenizer(folder), load_tokenizer(place)
    matrix, lines = read_matrices(Path(folder))["input"], lines_of(Path(text))
    entry = entries()[name]
    auxiliary = vectors(entry, source, target)
    if who == "own":
        given = {"corpus": lines, "auxiliary": auxiliary}
        print(json.dumps(measured(fit_and_apply(entry, source, target, matrix, given))))
    else:
        prepared = PUBLIC[entry.method][1](source, target, matrix, auxiliary, lines)
        print(json.dumps(measured(prepared)))


def fit_and_apply(
    entry: InitializerConfig, source: Any, target: Any, matrix: Any, given: dict[str, Any]
) -> Callable[[], object]:
    """The measured work of our initializers: one fit and one matrix."""
    made = initializer(entry.method, **entry.options)
    return lambda: made.fit(source, target, n_source=len(matrix), **given).apply(matrix)


def deepfocus_work(source, target, matrix, auxiliary, lines):
    """FOCUS with the given vectors instead of a fastText model, which it uses as a mapping."""
    import torch
    from deepfocus import focus

    tokens = target.convert_ids_to_tokens(auxiliary["target"].tokens.tolist())
    model = dict(zip(tokens, auxiliary["target"].vectors, strict=True))
    focus.load_target_token_embedding = lambda **_: model
    few = np.ones((2, DIMENSIONS), np.float32)
    focus.fastdist.cosine_matrix_to_matrix(few, few)  # compiles it
    given = {"fasttext_model_path": "given", "verbosity": "silent", "processes": 1}
    return lambda: focus.FOCUS(target, source, torch.from_numpy(matrix), **given)


def wechsel_work(source, target, matrix, auxiliary, lines):
    """WECHSEL, starting from aligned token vectors."""
    import wechsel

    def unit(role: str, tokenizer) -> np.ndarray:
        made = np.zeros((len(tokenizer), DIMENSIONS))
        found = auxiliary[role].vectors
        made[auxiliary[role].tokens] = found / np.linalg.norm(found, axis=1, keepdims=True)
        return made

    given = unit("source", source), unit("target", target), source, target, matrix
    return lambda: wechsel.create_target_embeddings(*given, verbose=False)


def omp_work(source, target, matrix, auxiliary, lines):
    """mergekit's orthogonal matching pursuit over the shared tokens, and the resulting rows."""
    import torch
    from mergekit.tokensurgeon import batch_omp

    pair = pair_vocabularies(source, target, len(matrix))
    (donor,) = auxiliary.values()
    held = np.isin(donor.tokens, pair.shared_ids)
    old = torch.from_numpy(matrix[pair.source_of[donor.tokens[held]]])
    anchors = torch.from_numpy(donor.vectors[held])
    wanted = torch.from_numpy(donor.vectors[np.isin(donor.tokens, pair.new_ids)])

    def pursue() -> None:
        for block in wanted.split(512):
            chosen, weights = batch_omp(block, anchors, 64)
            torch.bmm(weights.unsqueeze(1), old[chosen])

    return pursue


def subword_work(source, target, matrix, auxiliary, lines):
    """mergekit's means, which tokenize each token's text."""
    import torch
    from mergekit.tokenizer.normalization import normalize_token
    from mergekit.tokensurgeon import subword_approximate

    old = source.get_vocab()
    space = "▁" if "▁" in old else "Ġ"
    tokens = [normalize_token(token, {}, space) for token in target.get_vocab() if token not in old]
    return lambda: subword_approximate(torch.from_numpy(matrix), tokens, False, source)


def tokenizing_work(source, target, matrix, auxiliary, lines):
    """Tokenize each sentence of the text with both tokenizers."""
    return lambda: [list(tokenize(tokenizer, lines)) for tokenizer in (source, target)]


# Method -> its alternative, and how that is measured.
PUBLIC: dict[str, tuple[str, Callable[..., Callable[[], object]]]] = {
    "align": ("tokenizing once", tokenizing_work),
    "focus": ("deepfocus", deepfocus_work),
    "wechsel": ("wechsel", wechsel_work),
    "omp": ("mergekit", omp_work),
    "mean": ("mergekit", subword_work),
}


def _parser() -> ArgumentParser:
    found = parser(NAME, __doc__)
    add_options(found)
    found.add_argument("--size", type=int, default=4000, help="tokens of the target")
    found.add_argument("names", nargs="*", choices=[*entries(), []], metavar="INITIALIZER")
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:])
    else:
        main()
