"""Each initializer beside its public implementation, on the same input: time and memory as ratios.

python benchmarks/initialization.py MODEL_FOLDER TEXT_FILE [TARGET_SIZE [NAME …]]

Public implementations: deepfocus for focus, wechsel for wechsel, mergekit for omp and mean (all in
envs/dev.txt). The target is a byte-level BPE trained on the text, which replaces the source's
vocabulary, so that those who compute every row anew have little more to do. Both sides get the same
tokenizers, matrix and vectors, and each runs in a process of its own with one thread. Loading and
importing are not counted. Vectors of tokens are drawn at random, since neither time nor memory
depends on what they say.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import yaml
from measuring import in_its_own_process, measured

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.initialization.pairing import pair_vocabularies
from lexigraft.initialization.registry import initializer
from lexigraft.source.model import load_tokenizer, read_matrices
from lexigraft.vocabulary.train import train_tokenizer

CONFIG = Path(__file__).resolve().parent.parent / "config"
DIMENSIONS, DONOR_DIMENSIONS = 300, 768
# What is learned by gradient descent takes as long as its options say; zett needs a checkpoint.
LEFT_OUT = ("cw2v", "distill", "zett")


def main(folder: str, text: str, size: str = "4000", *names: str) -> None:
    """Print a line for each registry name: ours, the public one, and ours over it."""
    source = load_tokenizer(folder)
    lines = Path(text).read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as place:
        target = train_tokenizer(lines, "byte-level-bpe", int(size), source)
        target.save_pretrained(place)
        new = len(pair_vocabularies(source, target).new_ids)
        print(f"{size} tokens for {folder}, {new} of them new, {len(lines)} lines, one thread")
        columns = f"{'CPU s':>8} {'MiB':>8}"
        print(f"{'initializer':20} {columns}   {'public one':12} {columns}")
        for name in names or entries():
            entry = entries()[name]
            given = (name, folder, place, text)
            ours = in_its_own_process(__file__, "--work", "ours", *given, threads=1)
            line = f"{name:20} {shown(ours)}"
            if entry["method"] in PUBLIC and plain(name, entry):
                theirs = in_its_own_process(__file__, "--work", "theirs", *given, threads=1)
                line += f"   {PUBLIC[entry['method']][0]:12} {shown(theirs)}"
                if "error" not in ours and "error" not in theirs:
                    cpu, mib = ours["cpu"] / theirs["cpu"], ours["mib"] / theirs["mib"]
                    line += f"   time {cpu:.2f}, memory {mib:.2f} of it"
            print(line, flush=True)


def entries() -> dict[str, dict]:
    """Entries of the registry whose cost is that of an algorithm on the input."""
    registry = yaml.safe_load((CONFIG / "initializers.yaml").read_text(encoding="utf-8"))
    found = registry["initializers"]
    return {name: entry for name, entry in found.items() if entry["method"] not in LEFT_OUT}


def plain(name: str, entry: dict) -> bool:
    """Whether an entry is its method as such: variants have the same public implementation."""
    return name == entry["method"]


def shown(result: dict) -> str:
    """CPU seconds and MiB, or what went wrong."""
    if "error" in result:
        return f"{result['error'][:60]:>17}"
    return f"{result['cpu']:8.2f} {result['mib']:8.0f}"


def vectors(entry: dict, source, target, seed: int = 0) -> dict[str, TokenVectors]:
    """Vectors of all ordinary tokens by the roles of an entry, drawn at random."""
    named = entry.get("auxiliary")
    roles = named if isinstance(named, dict) else {"target": named} if named else {}
    made = {}
    for number, (role, auxiliary) in enumerate(roles.items()):
        tokenizer = source if role == "source" else target
        ids = np.array(sorted(tokenizer.get_vocab().values()), dtype=np.int64)
        ids = ids[~np.isin(ids, tokenizer.all_special_ids)]
        width = DONOR_DIMENSIONS if "plm" in auxiliary else DIMENSIONS
        draws = np.random.default_rng([seed, number])
        made[role] = TokenVectors(ids, draws.standard_normal((len(ids), width), np.float32))
    return made


def work(who: str, name: str, folder: str, place: str, text: str) -> None:
    """Do one measurement in this process and print it."""
    source, target = load_tokenizer(folder), load_tokenizer(place)
    matrix = read_matrices(Path(folder))["input"]
    entry = entries()[name]
    auxiliary = vectors(entry, source, target)
    if who == "ours":
        lines = Path(text).read_text(encoding="utf-8").splitlines()
        given = {"corpus": lines, "auxiliary": auxiliary}
        print(json.dumps(measured(fit_and_apply(entry, source, target, matrix, given))))
    else:
        prepared = PUBLIC[entry["method"]][1](source, target, matrix, auxiliary)
        print(json.dumps(measured(prepared)))


def fit_and_apply(entry: dict, source, target, matrix, given: dict) -> Callable[[], object]:
    """What is measured of ours: one fit, and one matrix made."""
    made = initializer(entry["method"], **entry.get("options", {}))
    return lambda: made.fit(source, target, n_source=len(matrix), **given).apply(matrix)


def deepfocus_work(source, target, matrix, auxiliary):
    """FOCUS with the given vectors in place of a fastText model, which it uses as a mapping."""
    import torch
    from deepfocus import focus

    tokens = target.convert_ids_to_tokens(auxiliary["target"].tokens.tolist())
    model = dict(zip(tokens, auxiliary["target"].vectors, strict=True))
    focus.load_target_token_embedding = lambda **_: model
    few = np.ones((2, DIMENSIONS), np.float32)
    focus.fastdist.cosine_matrix_to_matrix(few, few)  # compiles it
    given = {"fasttext_model_path": "given", "verbosity": "silent", "processes": 1}
    return lambda: focus.FOCUS(target, source, torch.from_numpy(matrix), **given)


def wechsel_work(source, target, matrix, auxiliary):
    """WECHSEL from aligned vectors of tokens on."""
    import wechsel

    def unit(role: str, tokenizer) -> np.ndarray:
        made = np.zeros((len(tokenizer), DIMENSIONS))
        found = auxiliary[role].vectors
        made[auxiliary[role].tokens] = found / np.linalg.norm(found, axis=1, keepdims=True)
        return made

    given = unit("source", source), unit("target", target), source, target, matrix
    return lambda: wechsel.create_target_embeddings(*given, verbose=False)


def omp_work(source, target, matrix, auxiliary):
    """Orthogonal matching pursuit of mergekit over the shared tokens, and the rows made of it."""
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


def subword_work(source, target, matrix, auxiliary):
    """Means of mergekit, which tokenizes each token's text."""
    import torch
    from mergekit.tokenizer.normalization import normalize_token
    from mergekit.tokensurgeon import subword_approximate

    old = source.get_vocab()
    space = "▁" if "▁" in old else "Ġ"
    tokens = [normalize_token(token, {}, space) for token in target.get_vocab() if token not in old]
    return lambda: subword_approximate(torch.from_numpy(matrix), tokens, False, source)


PUBLIC = {
    "focus": ("deepfocus", deepfocus_work),
    "wechsel": ("wechsel", wechsel_work),
    "omp": ("mergekit", omp_work),
    "mean": ("mergekit", subword_work),
}

if __name__ == "__main__":
    if sys.argv[1] == "--work":
        work(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
