"""Align as in the published code of Yamaguchi et al.: last occurrences, BOS, and Merge."""

from collections.abc import Mapping

import numpy as np
from scipy.sparse import csr_array
from tqdm import tqdm

from lexigraft.initialization.decomposition import row_shares
from lexigraft.initialization.inputs import required_corpus
from lexigraft.initialization.interface import Auxiliaries, Corpus, RowInitializer
from lexigraft.initialization.matrix import Matrix
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
        row_of_token = {token_id: row for row, token_id in enumerate(pair.new_ids.tolist())}
        rows: list[int] = []
        columns: list[int] = []
        weights: list[float] = []
        options = {"return_offsets_mapping": True, "verbose": False}
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
                    if token_id in row_of_token:
                        is_within = (starts >= start) & (ends <= end)
                        is_around = (starts <= start) & (ends >= end)
                        pieces = source_ids[is_within | is_around].tolist()
                        rows += [row_of_token[token_id]] * len(pieces)
                        columns += pieces
                        weights += [1 / len(pieces)] * len(pieces) if pieces else []
        shape = (len(pair.new_ids), pair.n_source + 1)
        shares = row_shares(csr_array((weights, (rows, columns)), shape=shape))
        self._is_aligned = np.diff(shares.indptr) > 0
        self.aligned_ = int(self._is_aligned.sum())
        self._aligned_recipe = assemble_recipe(shares, pair.source_of, pair.source_ids)
        is_random = self._unknown & ~self._is_aligned
        self.fallbacks_ = [pair.new_tokens[i] for i in np.flatnonzero(is_random)]

    def _rows(self, matrices: Mapping[str, Matrix]) -> dict[str, np.ndarray]:
        rows = super()._rows(matrices)
        for which, matrix in matrices.items():
            for columns, values in self._aligned_recipe.new_rows(matrix, which):
                rows[which][self._is_aligned, columns] = values[self._is_aligned]
        return rows
