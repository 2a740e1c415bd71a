"""How much GPU memory training takes, simulated: python benchmarks/memory.py

Models of these configurations are trained for a step on tensors without values, see
`lexigraft.training.memory`. The peaks go to `docs/results/memory.json`, of which `docs/gpu.md` is
made. It takes some minutes, and no GPU.
"""

import logging
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tqdm import tqdm
from transformers import AutoConfig

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lexigraft.training.memory import simulated_peak
from lexigraft.training.passes import pass_tokens
from lexigraft.training.settings import read_strategy
from workflow.config.registries import load_registries
from workflow.pages import write_record

NEW_TOKENS = 5000
STRATEGIES = ("lora-clm-2048", "two-stage-clm-2048", "2x2ls-clm-512", "2x2ls-mtp-512", "new-rows")
# Of each model what its config.json says, where that is not the default of its architecture.
_SEVEN = {"num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096}
MODELS = {
    "llama-2-7b": ("llama", _SEVEN | {"intermediate_size": 11008, "vocab_size": 32000}),
    "llama-3-8b": (
        "llama",
        _SEVEN | {"intermediate_size": 14336, "num_key_value_heads": 8, "vocab_size": 128256},
    ),
    "mistral-7b": (
        "mistral",
        _SEVEN | {"intermediate_size": 14336, "num_key_value_heads": 8, "vocab_size": 32000},
    ),
    "gemma-2-9b": (
        "gemma2",
        {
            "hidden_size": 3584,
            "intermediate_size": 14336,
            "num_hidden_layers": 42,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 256,
            "vocab_size": 256000,
        },
    ),
    "qwen2-7b": (
        "qwen2",
        {
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "vocab_size": 152064,
        },
    ),
    "pythia-6.9b": ("gpt_neox", _SEVEN | {"intermediate_size": 16384, "vocab_size": 50432}),
    "xglm-1.7b": (
        "xglm",
        {"d_model": 2048, "ffn_dim": 8192, "num_layers": 24, "attention_heads": 16},
    ),
}


def main() -> None:
    """Simulate every model with every strategy."""
    entries = load_registries()["strategies"]
    strategies = {name: read_strategy(entries[name]) for name in STRATEGIES}
    rows = []
    for model, (kind, own) in tqdm(MODELS.items(), "models"):
        config = AutoConfig.for_model(kind, **own)
        for name, strategy in strategies.items():
            peak = simulated_peak(config, strategy, config.vocab_size + NEW_TOKENS)
            rows.append([model, name, round(peak / 2**30, 1)])
    versions = {name: version(name) for name in ("torch", "transformers")}
    run = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "new_tokens": NEW_TOKENS,
        "pass_tokens": pass_tokens("cuda"),
        **versions,
    }
    tables = {"peaks": [["model", "strategy", "gibibytes"], *rows]}
    write_record("memory", {"run": run, "tables": tables})


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main()
