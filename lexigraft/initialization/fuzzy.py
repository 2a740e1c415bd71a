"""Target tokens that differ from a source token in white space alone."""

import numpy as np

from lexigraft.initialization.pairing import VocabularyPair


def alike_without_space(pair: VocabularyPair, target_ids: np.ndarray) -> np.ndarray:
    """Source tokens that stand for the same text once white space is taken out of both.

    `##ing` of a WordPiece vocabulary is so found in a source that only has `▁ing`.

    Parameters
    ----------
    target_ids
        Ids in the target vocabulary.

    Returns
    -------
    ndarray of int
        [len(target_ids)]: a source id, or -1 where there is none. Special tokens and tokens of
        nothing but white space are like no other; of several source tokens the shortest is taken,
        then the first.
    """
    ordinary = [i for i in pair.source_ids.tolist() if i not in pair.source_special_ids]
    first: dict[bytes, int] = {}
    for source_id in sorted(ordinary, key=lambda i: len(pair.source_bytes[i])):
        first.setdefault(_without_space(pair.source_bytes[source_id]), source_id)
    first.pop(b"", None)
    special = pair.target_special_ids
    return np.array(
        [
            -1 if i in special else first.get(_without_space(pair.target_bytes[i]), -1)
            for i in target_ids.tolist()
        ],
        dtype=np.int64,
    )


def _without_space(piece: bytes) -> bytes:
    return b"".join(piece.split())
