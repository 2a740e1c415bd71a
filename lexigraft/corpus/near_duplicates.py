"""Near-duplicates: sentences that share most of their letter sequences with an earlier one.

Web text repeats itself with small changes, which exact comparison does not find. Sentences are
compared by the Jaccard similarity of their shingles, runs of five letters without spaces, which
also works for scripts without word boundaries. Candidates come from MinHash signatures in an LSH
index (Broder 1997; Leskovec et al. 2020, Mining of Massive Datasets, chapter 3; used by Lee et al.
2022 to deduplicate training text); each candidate is then compared exactly, so that no other
sentence is dropped.
"""

from collections.abc import Sequence

from datasketch import MinHash, MinHashLSH
from tqdm import tqdm

from lexigraft.corpus.contamination import letters

# Length of a shingle in letters. A shorter sentence is one shingle.
_SHINGLE = 5
# Number of hash functions of a signature. With more, fewer pairs are compared unnecessarily.
_PERMUTATIONS = 128
# Probability of finding a pair at the threshold; it is higher for more similar pairs.
_RECALL = 0.99


def shingles(sentence: str) -> set[str]:
    """The runs of five letters of a sentence; case, digits, punctuation and spaces are ignored."""
    text = letters(sentence)
    return {text[start : start + _SHINGLE] for start in range(max(len(text) - _SHINGLE + 1, 1))}


def jaccard(left: set[str], right: set[str]) -> float:
    """Jaccard similarity of the shingles of two sentences; each has at least one."""
    shared = len(left & right)
    return shared / (len(left) + len(right) - shared)


def without_near_duplicates(sentences: Sequence[str], threshold: float) -> list[int]:
    """Indices of the sentences whose similarity to each sentence kept before is below `threshold`.

    `threshold` is a Jaccard similarity in (0, 1]. At least 99 % of the pairs at or above it are
    found, and no others. The result depends only on the sentences. The index takes about 7 KB of
    memory per kept sentence.
    """
    signature = MinHash(num_perm=_PERMUTATIONS, seed=1)
    index = MinHashLSH(num_perm=_PERMUTATIONS, params=_bands(threshold))
    distinct: list[int] = []
    progress = tqdm(sentences, desc="near-duplicates", unit=" sentences", disable=None)
    for number, sentence in enumerate(progress):
        runs = shingles(sentence)
        signature.clear()
        signature.update_batch([shingle.encode() for shingle in runs])
        similar = index.query(signature)
        if not any(jaccard(runs, shingles(sentences[other])) >= threshold for other in similar):
            index.insert(number, signature)
            distinct.append(number)
    return distinct


def _bands(threshold: float) -> tuple[int, int]:
    """The number of bands of a signature, and of hashes in each.

    Two sentences of similarity s are compared if a band is the same in both: with probability
    1 - (1 - s ** hashes) ** bands. The longest bands with the required recall cause the fewest
    unnecessary comparisons.
    """
    for hashes in range(_PERMUTATIONS // 2, 0, -1):
        bands = _PERMUTATIONS // hashes
        if 1 - (1 - threshold**hashes) ** bands >= _RECALL:
            return bands, hashes
    return _PERMUTATIONS, 1
