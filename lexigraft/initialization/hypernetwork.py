"""ZeTT's hypernetwork: a transformer that predicts a token's rows from its source pieces.

The code shipped with published hypernetworks is not run: this module builds the network that their
configuration describes (Minixhofer, Ponti and Vulić 2024, section 3) and loads the safetensors.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import RobertaConfig, RobertaModel

from lexigraft.errors import UserError
from lexigraft.source.weights import weight_files

# Settings with a single supported value, which all published hypernetworks have.
_EXPECTED = {
    "hn_model_type": "roberta",
    "hn_embed_using_source_embeddings": True,
    "hn_embed_target_priors": False,
    "hn_add_inter_token_attention": False,
    "hn_concat_last_hidden_state": False,
}
_REQUIRED = (
    *("n_embd", "hn_hidden_size", "hn_intermediate_size", "hn_n_layers", "hn_surface_maxlen"),
    *("hn_n_extra_tokens", "original_vocab_size", "pad_token_id"),
)


class Hypernetwork(nn.Module):
    """The network that a published `config.json` describes, with module names as published.

    Raises a `UserError` if the configuration lacks a key, or describes an unsupported network. The
    network predicts rows for models of hidden size `width`, of both matrices if `untied`.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        for key in _REQUIRED:
            if not isinstance(config.get(key), int):
                raise UserError(
                    f"hypernetwork: its config.json has no number '{key}'; give one of ZeTT's"
                )
        for key, expected in _EXPECTED.items():
            if config.get(key, expected) != expected:
                raise UserError(
                    f"hypernetwork: {key}: {config[key]!r} is not supported, only {expected!r}"
                )
        self.width = int(config["n_embd"])
        self.untied = bool(config.get("separate_out_embeddings", False))
        has_languages = bool(config.get("hn_embed_lang_id", False))
        self.languages = [str(name) for name in config.get("langs") or []] if has_languages else []
        self.pad = int(config["pad_token_id"])
        self.maximum_pieces = int(config["hn_surface_maxlen"])
        self.source_size = int(config["original_vocab_size"])
        self.single_head = bool(config.get("hn_single_head", False))
        hidden, intermediate = int(config["hn_hidden_size"]), int(config["hn_intermediate_size"])
        input_width = self.width * (2 if self.untied else 1)
        heads = config.get("hn_num_attention_heads") or hidden // 64
        self.model = _encoder(hidden, intermediate, int(config["hn_n_layers"]), heads, self.pad)
        self.fallback_embeddings = nn.Embedding(
            max(int(config["hn_n_extra_tokens"]), 1), input_width
        )
        self.input_projection = nn.Sequential(
            nn.Linear(input_width, hidden), _Block(hidden, intermediate)
        )
        output_width = input_width if self.single_head else self.width
        self.output_projection = nn.Sequential(
            _Block(hidden, intermediate), nn.Linear(hidden, output_width)
        )
        if self.untied and not self.single_head:
            self.output_projection_out = nn.Sequential(
                _Block(hidden, intermediate), nn.Linear(hidden, self.width)
            )
        self.rescales = bool(config.get("hn_rescale_embeddings", False))
        if self.rescales:
            self.in_scaler, self.scaler = _Scale(input_width), _Scale(self.width)
            if self.untied:
                self.out_scaler = _Scale(self.width)
        if has_languages:
            self.lang_embeddings = nn.Embedding(int(config["n_langs"]), hidden)
        if config.get("hn_predict_bias", False):
            # It is in the files, but the heads of decoders have no bias.
            self.bias_projection = nn.Linear(hidden, 1)

    def forward(
        self, pieces: torch.Tensor, source_rows: torch.Tensor, language: int | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Predict input and output rows [n, width] of tokens; no output rows unless `untied`.

        `pieces` int64 [n, maximum_pieces] are ids in the hypernetwork's tokenizer, padded with
        `pad`; those from `source_size` on are bytes without a source token. `source_rows` [n,
        maximum_pieces, width or twice that] are the source row of each piece, the input row
        followed by the output row. `language` is an index into `languages`, if there are any.
        """
        is_extra = pieces >= self.source_size
        inputs = self.in_scaler(source_rows) if self.rescales else source_rows
        extra_rows = self.fallback_embeddings((pieces - self.source_size).clamp(min=0))
        inputs = self.input_projection(torch.where(is_extra[..., None], extra_rows, inputs))
        attention_mask = pieces != self.pad
        if hasattr(self, "lang_embeddings"):
            # Append an extra token; subtract the embeddings that the encoder will add to it.
            embeddings = self.model.embeddings
            language_token = self.lang_embeddings.weight[language] - (
                embeddings.token_type_embeddings.weight[0]
                + embeddings.position_embeddings.weight[pieces.shape[1]]
            )
            inputs = torch.cat([inputs, language_token.expand(len(pieces), 1, -1)], dim=1)
            attention_mask = torch.cat(
                [attention_mask, attention_mask.new_ones(len(pieces), 1)], dim=1
            )
        positions = torch.arange(attention_mask.shape[1], device=pieces.device).expand(
            attention_mask.shape
        )
        state = self.model(
            inputs_embeds=inputs, attention_mask=attention_mask.long(), position_ids=positions
        ).last_hidden_state[:, 0]
        predicted = self.output_projection(state)
        input_rows, output_rows = predicted[:, : self.width], None
        if self.untied:
            output_rows = predicted[:, self.width :]
            output_rows = output_rows if self.single_head else self.output_projection_out(state)
        if self.rescales:
            input_rows = self.scaler(input_rows)
            output_rows = None if output_rows is None else self.out_scaler(output_rows)
        return input_rows, output_rows


def load_hypernetwork(folder: str | Path) -> Hypernetwork:
    """Load a published hypernetwork from a folder, in float32; a `UserError` if it does not fit."""
    file = Path(folder) / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"hypernetwork {file}: cannot be read ({error})") from None
    network = Hypernetwork(config)
    weights: dict[str, torch.Tensor] = {}
    for part in weight_files(folder):
        weights |= load_file(part)
    for name, tensor in network.state_dict().items():
        if name not in weights or weights[name].shape != tensor.shape:
            raise UserError(
                f"hypernetwork {folder}: its weights have no {name} of the shape that its "
                f"config.json describes, {tuple(tensor.shape)}; fetch it again"
            )
    network.load_state_dict({name: weights[name].float() for name in network.state_dict()})
    return network.eval()


class _Scale(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(1, width))
        self.b = nn.Parameter(torch.zeros(1, width))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.w * rows + self.b


class _Block(nn.Module):
    """Two layers with a residual connection and layer normalization."""

    def __init__(self, width: int, intermediate: int) -> None:
        super().__init__()
        self.dense1, self.dense2 = nn.Linear(width, intermediate), nn.Linear(intermediate, width)
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        activated = nn.functional.gelu(self.dense1(rows), approximate="tanh")
        activated = nn.functional.gelu(self.dense2(activated), approximate="tanh")
        return self.ln(rows + activated)


def _encoder(hidden: int, intermediate: int, layers: int, heads: int, pad: int) -> Any:
    """A RoBERTa encoder with the settings of roberta-base."""
    config = RobertaConfig(
        vocab_size=pad + 1,  # not used: the inputs are vectors
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=514,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        pad_token_id=1,
    )
    return RobertaModel(config, add_pooling_layer=False)
