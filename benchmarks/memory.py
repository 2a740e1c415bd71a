"""Simulate the GPU memory of training: python -m benchmarks.memory

Models of these configurations are trained for one step on tensors without values, see
`lexigraft.training.memory`. The results are written to `docs/results/memory.json`, from which
`docs/gpu.md` is generated and on which the GPU requests of sources are based. It takes some minutes
and needs no GPU.
"""

import logging
import multiprocessing
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

from tqdm import tqdm
from transformers import AutoConfig

from lexigraft.inference.chunked_logits import LEAST_LOGITS
from lexigraft.training.memory import SimulatedPhase, simulated_phases
from lexigraft.training.phase import micro_batch_tokens
from lexigraft.training.settings import read_strategy
from workflow.config.registries import load_registries
from workflow.records import write_record

CARDS = (24, 40, 48, 80)  # nominal GB
USABLE = 11 / 12  # of them, in GiB: below what a card reports, minus loss by fragmentation
GPUS = (2, 4, 8)  # of 80 GB in one machine, for trainings that do not fit one
NEW_TOKENS = 5000
REPLACED = 50_000  # tokens of VocADT's vocabularies, which replace the source's
STRATEGIES = ("new-rows", "lora-clm-2048", "2x2ls-clm-512", "2x2ls-mtp-512", "alma")
NEAR = 1.3  # largest reduction by micro-batches of one sequence
# Micro-batches of 4,096 tokens, and the smallest ones, used if memory is short.
PASSES: dict[str, dict[str, Any]] = {"full": {}, "sequence": {"tokens": 1, "logits": LEAST_LOGITS}}
LARGE = ("llama-2-7b", "mistral-7b", "pythia-6.9b")
# The largest trainings of config/studies: model, strategy, and size of its largest vocabulary.
STUDIED = (
    ("llama-2-7b", "vocadt-sparse", REPLACED),
    ("llama-2-7b", "vocadt", REPLACED),
    ("mistral-7b", "vocadt-sparse", REPLACED),
    ("mistral-7b", "vocadt", REPLACED),
    ("pythia-1b", "progressive", 256_000),
    ("pythia-1b", "distill", 151_646),
    ("pythia-2.8b", "progressive", 256_000),
    ("pythia-6.9b", "progressive", 256_000),
    ("pythia-6.9b", "distill", 151_646),
)
# The values of each model's config.json that differ from the defaults of its architecture.
_SEVEN: dict[str, Any] = {"num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "smollm2-135m": (
        "llama",
        {
            "hidden_size": 576,
            "intermediate_size": 1536,
            "num_hidden_layers": 30,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "vocab_size": 49152,
            "tie_word_embeddings": True,
        },
    ),
    "pythia-1b": (
        "gpt_neox",
        {
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 8,
            "vocab_size": 50304,
        },
    ),
    "llama-3.2-1b": (
        "llama",
        {
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "vocab_size": 128256,
            "tie_word_embeddings": True,
        },
    ),
    "qwen2-1.5b": (
        "qwen2",
        {
            "hidden_size": 1536,
            "intermediate_size": 8960,
            "num_hidden_layers": 28,
            "num_attention_heads": 12,
            "num_key_value_heads": 2,
            "vocab_size": 151936,
            "tie_word_embeddings": True,
        },
    ),
    "xglm-1.7b": (
        "xglm",
        {"d_model": 2048, "ffn_dim": 8192, "num_layers": 24, "attention_heads": 16},
    ),
    "gemma-2-2b": (
        "gemma2",
        {
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_hidden_layers": 26,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "vocab_size": 256000,
        },
    ),
    "pythia-2.8b": (
        "gpt_neox",
        {
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "vocab_size": 50304,
        },
    ),
    "llama-3.2-3b": (
        "llama",
        {
            "hidden_size": 3072,
            "intermediate_size": 8192,
            "num_hidden_layers": 28,
            "num_attention_heads": 24,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 128256,
            "tie_word_embeddings": True,
        },
    ),
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
}


def main() -> None:
    """Simulate every model with every strategy."""
    wanted = [
        *STUDIED,
        *(
            (model, strategy, config(model).vocab_size + NEW_TOKENS)
            for model in MODELS
            for strategy in STRATEGIES
        ),
    ]
    context = multiprocessing.get_context("spawn")
    peaks: list[list[Any]] = []
    cards: list[list[Any]] = []
    with ProcessPoolExecutor(os.cpu_count(), context, quiet) as pool:
        for found, runs in tqdm(pool.map(simulate, wanted), "trainings", total=len(wanted)):
            peaks += found
            cards += runs
    versions = {name: version(name) for name in ("torch", "transformers")}
    run = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "new_tokens": NEW_TOKENS,
        "replaced": REPLACED,
        "most_gpus": GPUS[-1],
        "pass_tokens": micro_batch_tokens("cuda"),
        "usable": {card: round(card * USABLE, 1) for card in CARDS},
        **versions,
    }
    key = ["model", "strategy", "vocabulary", "offload", "passes", "gpus"]
    tables = {
        "peaks": [[*key, "gibibytes"], *peaks],
        "cards": [[*key, "card", "trained", "machine_gibibytes"], *cards],
    }
    write_record("memory", {"run": run, "tables": tables})


def simulate(wanted: tuple[str, str, int]) -> tuple[list[list[Any]], list[list[Any]]]:
    """The peaks of one training, and the cards that it needs, without and with offloading.

    Peaks are simulated with full micro-batches; with micro-batches of one sequence, if these may
    fit a smaller card; and on several GPUs, if one is too small. Offloading is simulated if the
    smallest card is too small without it. The machine's memory is that of offloading.
    """
    phases = phases_of(*wanted)
    peaks: list[list[Any]] = []

    @cache
    def peak(offload: bool, passes: str, gpus: int = 1) -> float:
        options = {**PASSES[passes], "gpus": gpus, "offload": offload}
        found = round(max(phase.peak(**options) for phase in phases) / 2**30, 1)
        peaks.append([*wanted, offload, passes, gpus, found])
        return found

    def smallest(offload: bool) -> list[Any] | None:
        full = peak(offload, "full")
        for card in CARDS:
            if full <= card * USABLE:
                return [*wanted, offload, "full", 1, card]
            near = full <= NEAR * card * USABLE
            if near and peak(offload, "sequence") <= card * USABLE:
                return [*wanted, offload, "sequence", 1, card]
        return None

    found = smallest(offload=False)
    if found is None:
        gpus = next((n for n in GPUS if peak(False, "full", n) <= CARDS[-1] * USABLE), None)
        found = [*wanted, False, "full", gpus, CARDS[-1] if gpus else None]
    trained = max(phase.trained for phase in phases)
    cards = [[*found, trained, None]]
    other = smallest(offload=True) if found[-1] != CARDS[0] else None
    *_, gpus, card = found
    if other and (gpus != 1 or other[-1] < card):
        machine = max(machine_memory(phase) for phase in phases)
        cards.append([*other, trained, round(machine / 2**30)])
    return peaks, cards


def machine_memory(phase: SimulatedPhase) -> int:
    """The approximate bytes of the machine's memory that a phase takes with offloading.

    Weights and gradients are in pinned memory, which CUDA rounds up to the next power of two.
    """
    trained = [p.nbytes for p in phase.model.parameters() if p.requires_grad]
    frozen = sum(p.nbytes for p in phase.model.parameters() if not p.requires_grad)
    pinned = sum(1 << (size - 1).bit_length() for size in trained)
    return 2 * pinned + 2 * sum(trained) + frozen + 4 * 2**30


def phases_of(model: str, name: str, vocabulary: int) -> list[SimulatedPhase]:
    """The distinct phases of a strategy of the registry."""
    strategy = read_strategy(load_registries()["strategies"][name])
    teacher = strategy.teacher(model)
    phases = simulated_phases(
        config(model),
        strategy,
        vocabulary,
        teacher=config(teacher) if teacher else None,
    )
    return list(dict.fromkeys(phases))


def peak_of(model: str, name: str, vocabulary: int) -> int:
    """The peak bytes of a strategy of the registry with full micro-batches."""
    return max(phase.peak() for phase in phases_of(model, name, vocabulary))


def config(model: str) -> Any:
    """The configuration of a model."""
    kind, own = MODELS[model]
    return AutoConfig.for_model(kind, **own)


def quiet() -> None:
    """Hide warnings and logs, which every process would repeat."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")


if __name__ == "__main__":
    main()
