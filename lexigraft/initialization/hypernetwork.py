"""ZeTT's hypernetwork: a transformer that reads a token's source pieces and writes its rows.

Minixhofer, Ponti and Vulić 2024, section 3. Published hypernetworks come with code for it. That
code is not run: this is the network that their configuration describes, and their weights are read
from safetensors.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from lexigraft.errors import UserError
from lexigraft.source.weights import weight_files

# What configurations may ask for that no published hypernetwork uses, and what they all say.
_EXPECTED = {
    "hn_model_type": "roberta",
    "hn_embed_using_source_embeddings": True,
    "hn_embed_target_priors": False,
    "hn_add_inter_token_attention": False,
    "hn_concat_last_hidden_state": False,
}
_NEEDED = (
    "n_embd", "hn_hidden_size", "hn_intermediate_size", "hn_n_layers", "hn_surface_maxlen",
    "hn_n_extra_tokens", "original_vocab_size", "pad_token_id",
)  # fmt: skip


class Hypernetwork(nn.Module):
    """The network; its modules are named as the weights in published files are.

    Parameters
    ----------
    config
        The `config.json` of a published hypernetwork.

    Attributes
    ----------
    width : int
        Hidden size of the models that it makes rows for.
    untied : bool
        Whether it reads both matrices and makes rows for both.
    languages : list of str
        Languages it was told apart in training; empty for those that were not told.

    Raises
    ------
    UserError
        The configuration lacks a key, or asks for a network of another shape.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        _check(config)
        self.width = int(config["n_embd"])
        self.untied = bool(config.get("separate_out_embeddings", False))
        told = bool(config.get("hn_embed_lang_id", False))
        self.languages = [str(name) for name in config.get("langs") or []] if told else []
        self.pad, self.most = int(config["pad_token_id"]), int(config["hn_surface_maxlen"])
        self.source_size = int(config["original_vocab_size"])
        self.single_head = bool(config.get("hn_single_head", False))
        hidden, between = int(config["hn_hidden_size"]), int(config["hn_intermediate_size"])
        read = self.width * (2 if self.untied else 1)
        heads = config.get("hn_num_attention_heads") or hidden // 64
        self.model = _encoder(hidden, between, int(config["hn_n_layers"]), heads, self.pad)
        self.fallback_embeddings = nn.Embedding(max(int(config["hn_n_extra_tokens"]), 1), read)
        self.input_projection = nn.Sequential(nn.Linear(read, hidden), _Block(hidden, between))
        written = read if self.single_head else self.width
        self.output_projection = nn.Sequential(_Block(hidden, between), nn.Linear(hidden, written))
        if self.untied and not self.single_head:
            self.output_projection_out = nn.Sequential(
                _Block(hidden, between), nn.Linear(hidden, self.width)
            )
        self.rescales = bool(config.get("hn_rescale_embeddings", False))
        if self.rescales:
            self.in_scaler, self.scaler = _Scale(read), _Scale(self.width)
            if self.untied:
                self.out_scaler = _Scale(self.width)
        if told:
            self.lang_embeddings = nn.Embedding(int(config["n_langs"]), hidden)
        if config.get("hn_predict_bias", False):
            # It is in the files; heads of decoders have no bias that it could be put into.
            self.bias_projection = nn.Linear(hidden, 1)

    def forward(
        self, pieces: torch.Tensor, source_rows: torch.Tensor, language: int | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Rows of tokens.

        Parameters
        ----------
        pieces
            int64 [n, most]: ids of each token's pieces in the hypernetwork's tokenizer, filled up
            with `pad`. Ids from `source_size` on are bytes that the source has no token for.
        source_rows
            [n, most, width or twice that]: the source row of each piece, the input row followed by
            the output row if `untied`; whatever it says at fillers and those bytes is not read.
        language
            Index into `languages`, if there are any.

        Returns
        -------
        input, output : Tensor
            [n, width]; the second is None unless `untied`.
        """
        own = pieces >= self.source_size
        inputs = self.in_scaler(source_rows) if self.rescales else source_rows
        extra = self.fallback_embeddings((pieces - self.source_size).clamp(min=0))
        inputs = self.input_projection(torch.where(own[..., None], extra, inputs))
        seen = pieces != self.pad
        if hasattr(self, "lang_embeddings"):
            # It takes a place of its own at the end, but no position: the encoder will add one.
            embeddings = self.model.embeddings
            told = self.lang_embeddings.weight[language] - (
                embeddings.token_type_embeddings.weight[0]
                + embeddings.position_embeddings.weight[pieces.shape[1]]
            )
            inputs = torch.cat([inputs, told.expand(len(pieces), 1, -1)], dim=1)
            seen = torch.cat([seen, seen.new_ones(len(pieces), 1)], dim=1)
        places = torch.arange(seen.shape[1], device=pieces.device).expand(seen.shape)
        state = self.model(
            inputs_embeds=inputs, attention_mask=seen.long(), position_ids=places
        ).last_hidden_state[:, 0]
        made = self.output_projection(state)
        first, second = made[:, : self.width], None
        if self.untied:
            second = made[:, self.width :]
            second = second if self.single_head else self.output_projection_out(state)
        if self.rescales:
            first = self.scaler(first)
            second = None if second is None else self.out_scaler(second)
        return first, second


def load_hypernetwork(folder: str | Path) -> Hypernetwork:
    """The hypernetwork of a folder as published, in float32.

    Raises
    ------
    UserError
        It has no configuration or weights in safetensors, or they do not fit together.
    """
    from safetensors.torch import load_file

    file = Path(folder) / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"hypernetwork {file}: cannot be read ({error})") from None
    network = Hypernetwork(config)
    weights: dict[str, torch.Tensor] = {}
    for part in weight_files(folder):
        weights |= load_file(part)
    wanted = network.state_dict()
    for name, tensor in wanted.items():
        if name not in weights or weights[name].shape != tensor.shape:
            held = tuple(weights[name].shape) if name in weights else "nothing"
            raise UserError(
                f"hypernetwork {folder}: its weights hold {held} for {name}, its config.json "
                f"describes {tuple(tensor.shape)}; fetch it again"
            )
    network.load_state_dict({name: weights[name].float() for name in wanted})
    return network.eval()


class _Scale(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(1, width))
        self.b = nn.Parameter(torch.zeros(1, width))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.w * rows + self.b


class _Block(nn.Module):
    """Two layers with a shortcut around them, normalized."""

    def __init__(self, width: int, between: int) -> None:
        super().__init__()
        self.dense1, self.dense2 = nn.Linear(width, between), nn.Linear(between, width)
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        bent = nn.functional.gelu(self.dense1(rows), approximate="tanh")
        bent = nn.functional.gelu(self.dense2(bent), approximate="tanh")
        return self.ln(rows + bent)


def _encoder(hidden: int, between: int, layers: int, heads: int, pad: int) -> Any:
    """A RoBERTa encoder with the settings of roberta-base, from which hypernetworks take them."""
    from transformers import RobertaConfig, RobertaModel

    config = RobertaConfig(
        vocab_size=pad + 1,  # never read: pieces come in as vectors
        hidden_size=hidden,
        intermediate_size=between,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=514,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        pad_token_id=1,
    )
    return RobertaModel(config, add_pooling_layer=False)


def _check(config: dict[str, Any]) -> None:
    missing = [key for key in _NEEDED if not isinstance(config.get(key), int)]
    if missing:
        raise UserError(
            f"hypernetwork: its config.json has no number '{missing[0]}'; give a hypernetwork as "
            "published by ZeTT (benjamin/zett-hypernetwork-…)"
        )
    for key, expected in _EXPECTED.items():
        if config.get(key, expected) != expected:
            raise UserError(
                f"hypernetwork: its config.json says {key}: {config[key]!r}; only {expected!r} "
                "is supported"
            )


def as_pieces(network: Hypernetwork, pieces: list[list[int]]) -> np.ndarray:
    """Ids [n, most] of tokens' pieces, cut off or filled up to the length the network reads."""
    found = np.full((len(pieces), network.most), network.pad, dtype=np.int64)
    for row, ids in zip(found, pieces, strict=True):
        row[: len(ids)] = ids[: network.most]
    return found
