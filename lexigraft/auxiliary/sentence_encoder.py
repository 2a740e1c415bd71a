"""Sentence encoders: semantic vectors of texts, and of a tokenizer's tokens."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from tqdm import tqdm
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError, first_line
from lexigraft.source.hub import resolve
from lexigraft.vocabulary.token_bytes import special_ids, token_bytes

_BATCH = 32
_LONGEST = 256  # tokens of a text; sentence encoders are not trained on longer ones


class SentenceEncoder:
    """A sentence encoder such as all-mpnet-base-v2, which UnifyVocab uses (section B.4).

    A text's vector is the mean of the last hidden states of its tokens, scaled to length one; texts
    are truncated to 256 tokens. `spec` is `{"hub": "org/name", "revision": …}` or `{"folder":
    path}`, `where` its key in messages. Raises `UserError` if the model cannot be loaded.
    """

    def __init__(self, spec: Mapping[str, str], where: str = "encoder"):
        folder, self.revision = resolve(spec)
        self.name = spec.get("hub") or str(folder)
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
            model = AutoModel.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False, use_safetensors=True
            )
        except (OSError, ValueError, ImportError) as error:
            raise UserError(
                f"{where}: '{self.name}' cannot be loaded ({first_line(error)}); specify a "
                "sentence encoder that has *.safetensors files"
            ) from None
        if self._tokenizer.pad_token is None:
            raise UserError(f"{where}: '{self.name}' has no padding token; specify another encoder")
        self._model = model.float().eval()

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of length one [len(texts), h], float32."""
        vectors, starts = [], range(0, len(texts), _BATCH)
        options = {"padding": True, "truncation": True, "max_length": _LONGEST}
        for start in tqdm(starts, desc="encode", unit=" batches", disable=None):
            # Some tokenizers reject an empty batch entry; a space is equivalent.
            batch_texts = [text or " " for text in texts[start : start + _BATCH]]
            batch = self._tokenizer(batch_texts, return_tensors="pt", **options)
            with torch.inference_mode():
                states = self._model(**batch).last_hidden_state
            mask = batch["attention_mask"][:, :, None].to(states.dtype)
            mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
            vectors.append(torch.nn.functional.normalize(mean, dim=1).numpy())
        return np.concatenate(vectors)


def encode_tokens(
    tokenizer: PreTrainedTokenizerFast,
    encoder: SentenceEncoder,
    known: tuple[PreTrainedTokenizerFast, TokenVectors] | None = None,
) -> TokenVectors:
    """Encode the text of each token with a sentence encoder, for TokenAdapt.

    Bytes of incomplete characters are read as U+FFFD. Special tokens get no vector. `known` is
    another tokenizer with its vectors by the same encoder: the texts of its tokens are not encoded
    again.

    Examples
    --------
    >>> import lexigraft
    >>> from lexigraft.auxiliary import SentenceEncoder, encode_tokens
    >>> from transformers import BertConfig, BertModel
    >>> swahili = ["mto na mvua", "mto na maji"] * 5
    >>> tokenizer = lexigraft.train_tokenizer(swahili, "byte-level-bpe", size=264)
    >>> _ = tokenizer.add_special_tokens({"pad_token": "<pad>"})
    >>> _ = tokenizer.save_pretrained("encoder")
    >>> config = BertConfig(vocab_size=265, hidden_size=8, intermediate_size=8,
    ...                     num_hidden_layers=1, num_attention_heads=1)
    >>> BertModel(config).save_pretrained("encoder")
    >>> encode_tokens(tokenizer, SentenceEncoder({"folder": "encoder"})).vectors.shape
    (263, 8)
    """
    texts, vector_of_text = _token_texts(tokenizer), {}
    if known is not None:
        known_texts, vectors = _token_texts(known[0]), known[1]
        ids = vectors.tokens.tolist()
        vector_of_text = {known_texts[i]: row for i, row in zip(ids, vectors.vectors, strict=True)}
    # Batches of texts of similar length need the least padding.
    unknown_texts = sorted(
        {*texts.values()} - {*vector_of_text}, key=lambda text: (len(text), text)
    )
    if unknown_texts:
        vector_of_text |= zip(unknown_texts, encoder.vectors(unknown_texts), strict=True)
    rows = np.stack([vector_of_text[text] for text in texts.values()])
    return TokenVectors(np.array([*texts], dtype=np.int64), rows)


def _token_texts(tokenizer: PreTrainedTokenizerFast) -> dict[int, str]:
    """Id -> text of all tokens that are not special, in the order of ids."""
    special, pieces = special_ids(tokenizer), token_bytes(tokenizer)
    ids = sorted({*tokenizer.get_vocab().values()} - special)
    return {i: pieces[i].decode("utf-8", errors="replace") for i in ids}
