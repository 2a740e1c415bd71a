"""Align as in the published code of Yamaguchi et al.: last occurrences, BOS, and Merge."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
from tqdm import tqdm

from lexigraft.initialization.decomposition import piece_shares, weighted_rows
from lexigraft.initialization.inputs import required_corpus
from lexigraft.initialization.interface import Auxiliaries, Corpus, RowInitializer
from lexigraft.initialization.matrix import Matrix
from lexigraft.initialization.methods.merge import Weights
from lexigraft.initialization.methods.merge_as_published import MergeAsPublished
from lexigraft.initialization.recipe import assemble_recipe
from lexigraft.source.encoding import batches


class AlignAsPublished(MergeAsPublished, RowInitializer):
    """`Align` [1]_ with the deviations of its published code, to reproduce its results.

    - Only the last occurrence of a token in a sentence counts.
    - Tokens are aligned by character offsets: an occurrence aligns to the source tokens that lie
      within it or contain it, and to none that only overlap it.
    - The source tokenizer adds its special tokens, whose offsets are those of an empty text at the
      beginning: they belong to a token that begins the sentence.
    - A token that never occurs has its row of `merge-as-published`; of these, the `fallbacks_` are
      random.

    `aligned_` is the number of new tokens that occur.

    References
    ----------
    .. [1] Yamaguchi, Villavicencio and Aletras, "How Can We Effectively Expand the Vocabulary of
       LLMs with 0.01GB of Target Language Text?", section 4.3, and github.com/gucci-j/lowres-cve.
    """

    distribution = "the mean of its occurrences; without any, as merge-as-published"
    counted = ("aligned",)

    def _fit(self, corpus: Corpus, auxiliary: Auxiliaries) -> None:
        super()._fit(corpus, auxiliary)
        pair, text = self.pair_, required_corpus(self.name, corpus)
        variants: dict[int, Counter[tuple[int, ...]]] = {
            i: Counter() for i in pair.new_ids.tolist()
        }
        options = {"return_offsets_mapping": True, "return_attention_mask": False}
        for texts in batches(tqdm(text, desc="align", unit=" sentences", disable=None)):
            source, target = (
                tokenizer(texts, **options)
                for tokenizer in (pair.source_tokenizer, pair.target_tokenizer)
            )
            for sentence in range(len(texts)):
                source_ids = np.array(source["input_ids"][sentence])
                starts, ends = np.array(source["offset_mapping"][sentence]).reshape(-1, 2).T
                spans = zip(
                    target["input_ids"][sentence], target["offset_mapping"][sentence], strict=True
                )
                for token_id, (start, end) in dict(spans).items():
                    if token_id in variants:
                        is_within = (starts >= start) & (ends <= end)
                        is_around = (starts <= start) & (ends >= end)
                        variants[token_id][*source_ids[is_within | is_around].tolist(),] += 1
        recipes = [_mean(counts) for counts in variants.values()]
        self._is_aligned = np.array([bool(recipe) for recipe in recipes], dtype=bool)
        self.aligned_ = int(self._is_aligned.sum())
        self._aligned_recipe = assemble_recipe(
            weighted_rows(recipes, pair.n_source), pair.source_of, pair.source_ids
        )
        is_random = self._unknown & ~self._is_aligned
        self.fallbacks_ = [pair.new_tokens[i] for i in np.flatnonzero(is_random)]

    def _rows(self, matrices: Mapping[str, Matrix]) -> dict[str, np.ndarray]:
        rows = super()._rows(matrices)
        for which, matrix in matrices.items():
            for columns, values in self._aligned_recipe.new_rows(matrix, which):
                rows[which][self._is_aligned, columns] = values[self._is_aligned]
        return rows


def _mean(variants: Counter[tuple[int, ...]]) -> Weights:
    """The mean over the means of a token's variants, weighted by how often each occurs."""
    variants = Counter({pieces: count for pieces, count in variants.items() if pieces})
    mean: Weights = {}
    for pieces, count in variants.items():
        for source_id, share in piece_shares(pieces).items():
            mean[source_id] = mean.get(source_id, 0.0) + share * count / variants.total()
    return mean
