"""ZeTT: rows that a pretrained hypernetwork predicts from the source rows of a token's pieces."""

from collections.abc import Mapping

import numpy as np
import torch
from tokenizers import Tokenizer
from tqdm import tqdm

from lexigraft.errors import UserError
from lexigraft.hardware import device
from lexigraft.initialization.hypernetwork import load_hypernetwork
from lexigraft.initialization.interface import Auxiliaries, Corpus, RowInitializer
from lexigraft.initialization.matrix import Matrix, read_rows, row_mean
from lexigraft.initialization.options import text
from lexigraft.source.hub import resolve_place
from lexigraft.vocabulary.token_bytes import byte_alphabet

_TOKENS_AT_ONCE = 256


class ZeTT(RowInitializer):
    """Predictions of a hypernetwork that was trained for the source model [1]_.

    The rows depend on both matrices of an untied model: use `rows` with both. The published script
    also predicts the rows of tokens that both vocabularies have (`shared: special`). A token
    without text gets the mean of the source rows. `cut_` is the number of new tokens whose pieces
    are truncated.

    Parameters
    ----------
    hypernetwork
        A name on the hub, such as `benjamin/zett-hypernetwork-Mistral-7B-v0.1`; or a folder, which
        begins with `/`, `.` or `~`.
    revision
        A branch, tag or commit on the hub.
    language
        Code of the target language, for hypernetworks with a language embedding.

    References
    ----------
    .. [1] Minixhofer, Ponti and Vulić 2024, "Zero-Shot Tokenizer Transfer", section 3.
    """

    title = "ZeTT"
    counted = ("cut",)
    distribution = "predictions of the hypernetwork {hypernetwork}"
    hypernetwork: str = text()
    revision: str | None = text(None)
    language: str | None = text(None)

    def _rows(self, matrices: Mapping[str, Matrix]) -> dict[str, np.ndarray]:
        pair, network, torch_device = self.pair_, self._network.to(device()), device()
        expected = ["input", "output"] if network.untied else ["input"]
        widths = {matrix.shape[1] for matrix in matrices.values()}
        has_rows = pair.n_source >= network.source_size
        if sorted(matrices) != expected or widths != {network.width} or not has_rows:
            raise UserError(
                f"initializer 'zett': the hypernetwork is for models of width {network.width} with "
                f"a vocabulary of {network.source_size} and matrices for {' and '.join(expected)}; "
                "use one that was trained for this model"
            )
        means = {
            which: row_mean(matrix, pair.source_ids).astype(np.float32)
            for which, matrix in matrices.items()
        }
        new_rows = {which: np.tile(mean, (len(pair.new_ids), 1)) for which, mean in means.items()}
        with_pieces = np.flatnonzero([bool(pieces) for pieces in self._pieces])
        starts = range(0, len(with_pieces), _TOKENS_AT_ONCE)
        for start in tqdm(starts, desc="zett", unit=" batches", disable=None):
            batch = with_pieces[start : start + _TOKENS_AT_ONCE]
            pieces = np.full((len(batch), network.maximum_pieces), network.pad, dtype=np.int64)
            for row, i in zip(pieces, batch, strict=True):
                row[: len(self._pieces[i])] = self._pieces[i][: network.maximum_pieces]
            known = np.minimum(pieces, network.source_size - 1)
            ids, indices = np.unique(known, return_inverse=True)
            source_rows = [read_rows(matrices[which], ids, slice(None)) for which in expected]
            rows = np.concatenate(source_rows, axis=1).astype(np.float32)
            row_of_piece = torch.from_numpy(indices.reshape(pieces.shape))
            batch_rows = torch.from_numpy(rows).to(torch_device)[row_of_piece]
            with torch.no_grad():
                batch_pieces = torch.from_numpy(pieces).to(torch_device)
                predictions = network(batch_pieces, batch_rows, self._language)
            for which, predicted in zip(("input", "output"), predictions, strict=True):
                if predicted is not None:
                    new_rows[which][batch] = predicted.cpu().numpy()
        return new_rows

    def _fit(self, corpus: Corpus, auxiliary: Auxiliaries) -> None:
        folder, _ = resolve_place(self.hypernetwork, self.revision)
        self._network = load_hypernetwork(folder)
        languages = self._network.languages
        if (self.language not in languages) if languages else self.language:
            known = f"is not one of {', '.join(languages)}" if languages else "is not needed"
            raise UserError(f"option 'language' of initializer 'zett': {self.language!r} {known}")
        self._language = languages.index(str(self.language)) if languages else None
        try:
            model = Tokenizer.from_file(str(folder / "tokenizer.json")).model
        except Exception as error:  # the library raises nothing more specific
            raise UserError(f"hypernetwork {folder}: has no tokenizer ({error})") from error
        letters = {byte: letter for letter, byte in byte_alphabet().items()}
        # The hypernetwork's tokenizer is always byte-level: look up pieces by bytes.
        pair = self.pair_
        spellings = ["".join(map(letters.__getitem__, pair.target_bytes[i])) for i in pair.new_ids]
        self._pieces = [[piece.id for piece in model.tokenize(token)] for token in spellings]
        self.cut_ = sum(len(pieces) > self._network.maximum_pieces for pieces in self._pieces)
        self.fallbacks_ = [
            token for token, pieces in zip(pair.new_tokens, self._pieces, strict=True) if not pieces
        ]
