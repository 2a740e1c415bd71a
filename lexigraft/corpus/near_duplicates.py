"""Near-duplicates: sentences that share most of their letter sequences with an earlier one.

Web text repeats itself with small changes, which exact comparison does not find. Sentences are
compared by the Jaccard similarity of their shingles, runs of five letters without spaces, which
suits scripts without words too. Candidates come from MinHash signatures in an LSH index (Broder
1997; Leskovec et al. 2020, Mining of Massive Datasets, chapter 3; as Lee et al. 2022 deduplicate
training text); each is then compared exactly, so that no other sentence is dropped.
"""

from collections.abc import Sequence

from lexigraft.corpus.contamination import letters

# Letters of a shingle. A shorter sentence is one shingle.
_SHINGLE = 5
# Hash functions of a signature. With more, fewer pairs are compared in vain.
_PERMUTATIONS = 128
# The probability with which a pair at the threshold is found; of more similar ones it is higher.
_RECALL = 0.99


def shingles(sentence: str) -> set[str]:
    """The runs of five letters of a sentence; case, digits, punctuation and spaces are ignored."""
    text = letters(sentence)
    return {text[at : at + _SHINGLE] for at in range(max(len(text) - _SHINGLE + 1, 1))}


def jaccard(one: set[str], other: set[str]) -> float:
    """The share of the shingles of two sentences that both have; both have at least one."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


def without_near_duplicates(sentences: Sequence[str], threshold: float) -> list[int]:
    """Places of the sentences that are less similar than `threshold` to each one kept before.

    `threshold` is a Jaccard similarity in (0, 1]. At least 99 % of the pairs that are as similar
    are found, and never others. The result depends on the sentences alone. The index takes about
    7 KB of memory for each sentence that is kept.
    """
    from datasketch import MinHash, MinHashLSH
    from tqdm import tqdm

    signature = MinHash(num_perm=_PERMUTATIONS, seed=1)
    index = MinHashLSH(num_perm=_PERMUTATIONS, params=_bands(threshold))
    kept: list[int] = []
    progress = tqdm(sentences, desc="near-duplicates", unit=" sentences", disable=None)
    for place, sentence in enumerate(progress):
        own = shingles(sentence)
        signature.clear()
        signature.update_batch([shingle.encode() for shingle in own])
        similar = index.query(signature)
        if not any(jaccard(own, shingles(sentences[other])) >= threshold for other in similar):
            index.insert(place, signature)
            kept.append(place)
    return kept


def _bands(threshold: float) -> tuple[int, int]:
    """Into how many bands of how many hashes a signature is cut.

    Two sentences of similarity s are compared if a band is the same in both: with probability
    1 - (1 - s ** hashes) ** bands. The longest bands that suffice compare the fewest in vain.
    """
    cuts = ((_PERMUTATIONS // hashes, hashes) for hashes in range(1, _PERMUTATIONS // 2 + 1))
    return max(
        (cut for cut in cuts if 1 - (1 - threshold ** cut[1]) ** cut[0] >= _RECALL),
        key=lambda cut: cut[1],
        default=(_PERMUTATIONS, 1),
    )
