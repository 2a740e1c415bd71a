"""How alike two texts are in meaning: the cosine of their sentence vectors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lexigraft.errors import UserError
from lexigraft.source.hub import resolve

_BATCH = 32
_LONGEST = 256  # tokens of a text; sentence encoders are trained on no more


class SentenceEncoder:
    """A sentence encoder of the kind of all-mpnet-base-v2, which paper 003 uses (section B.4).

    A text's vector is the mean of the last hidden states of its tokens, special ones included,
    scaled to length one; of a text of more than 256 tokens the rest is left out.

    Parameters
    ----------
    spec
        `{"hub": "org/name", "revision": …}` or `{"folder": path}`: a model in Hugging Face layout.

    Raises
    ------
    UserError
        There is no such model, or it cannot be loaded.
    """

    def __init__(self, spec: Mapping[str, str]):
        from transformers import AutoModel, AutoTokenizer

        folder, self.revision = resolve(spec)
        self.name = spec.get("hub") or str(folder)
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
            model = AutoModel.from_pretrained(
                folder, use_safetensors=True, local_files_only=True, trust_remote_code=False
            )
        except (OSError, ValueError, ImportError) as error:
            reason = str(error).partition("\n")[0]
            raise UserError(
                f"alignment.encoder: '{self.name}' cannot be loaded ({reason}); name a sentence "
                "encoder with *.safetensors, or null"
            ) from None
        self._model = model.float().eval()

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of length one [len(texts), h], float32."""
        import torch

        found = []
        for first in range(0, len(texts), _BATCH):
            # Some tokenizers refuse an empty batch entry; a space is as empty.
            batch = self._tokenizer(
                [text or " " for text in texts[first : first + _BATCH]],
                padding=True,
                truncation=True,
                max_length=_LONGEST,
                return_tensors="pt",
            )
            with torch.inference_mode():
                states = self._model(**batch).last_hidden_state
            mask = batch["attention_mask"][:, :, None].to(states.dtype)
            mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
            found.append(torch.nn.functional.normalize(mean, dim=1).numpy())
        return np.concatenate(found)

    def similarity(self, texts: Sequence[str], others: Sequence[str]) -> float:
        """Mean cosine of each text's vector and the other's in its place."""
        return float((self.vectors(texts) * self.vectors(others)).sum(axis=1).mean())

    def described(self) -> dict[str, Any]:
        """Name and revision, for records."""
        return {"name": self.name, "revision": self.revision}
