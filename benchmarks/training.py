"""Speed and memory of training, compared with a plain Trainer and PEFT script.

The model has the configuration of a folder with a config.json (by default SmolLM2-135M's shape with
a vocabulary of 256,000 tokens) and random weights; text is random too. Each strategy is trained for
three steps in a separate process, by this library and by the script, with the same model, text,
optimizer, batch and precision. Tokens per second are those of all steps but the first. Memory is
the peak in addition to the model; on a GPU it is the peak of all tensors, limited to 79 GiB, as on
an 80 GB card. A teacher is a second model of the same shape. The script for adapters recomputes the
two matrices of the new vocabulary in each pass, as defined.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from benchmarks.measuring import in_its_own_process, measured
from benchmarks.record import Measurements, described, parser, rounds
from lexigraft.hardware import device, precision
from lexigraft.initialization.recipe import Recipe
from lexigraft.training.data import SequenceDataset, concatenate, pack
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.objectives.distill import DistillPhase, LogitDistillation
from lexigraft.training.objectives.mtp import MultiTokenPrediction, new_extra_head
from lexigraft.training.phase import run_phase
from lexigraft.training.settings import read_strategy
from lexigraft.training.trainable import FrozenWeights, decoder_layers
from lexigraft.training.vocadt_adapter import attach_adapters

NAME = "training"
PRECISIONS = ("float32", "bfloat16")
STEPS = 3
GPU_BYTES = 79 * 2**30
NEW_TOKENS = 1000
ADAPTED_TOKENS = 1500  # size of the new vocabulary of adapters
LAYERS = (0, 1, -2, -1)
LARGE_VOCABULARY = 256_000  # as of Gemma 2
SHAPE = "SmolLM2-135M"  # of the default model
SMOLLM2: dict[str, Any] = {
    "vocab_size": 49_152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "all": {"trainable": ["all"]},
    "matrices": {"trainable": ["embeddings", "head"]},
    "lora-clm": {"trainable": ["embeddings", "head", "lora"]},
    "2x2ls-clm": {"trainable": ["embeddings", "head", {"layers": list(LAYERS)}]},
    "2x2ls-mtp": {
        "trainable": ["embeddings", "head", {"layers": list(LAYERS)}],
        "objective": "mtp",
    },
    "new-rows": {"trainable": ["new-rows"]},
    "distill": {"trainable": ["all"], "objective": "distill", "distill": {"teacher": "second"}},
    "vocadt": {"trainable": ["adapter"], "adapter": {"form": "dense", "alpha": 0}},
    "vocadt-sparse": {
        "trainable": ["adapter"],
        "adapter": {"form": "sparse", "entries": 32, "alpha": 0},
    },
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure tokens per second and MiB of each strategy, ours and the script's."""
    options = _parser().parse_args(arguments)
    sizes = {name: getattr(options, name) for name in ("vocabulary", "sequences", "length")}
    given = [options.sequences, options.length, options.sequences, STEPS, options.vocabulary]
    model = options.config.name if options.config else SHAPE
    run = described("torch", "transformers", "peft", model=model, threads=options.threads, **sizes)
    order = product(PRECISIONS, STRATEGIES)
    found = Measurements(options, NAME, run, keys=2, order=order)
    axes = options.precision or PRECISIONS[:1], options.names or STRATEGIES
    for accuracy, name in rounds(options, *axes):
        script, ours = (
            in_its_own_process(
                NAME,
                *("--work", who, name, str(options.config or ""), *map(str, given)),
                threads=options.threads,
                LEXIGRAFT_PRECISION=accuracy,
            )
            for who in ("script", "ours")
        )
        if not found.note_errors(f"{accuracy} {name}", script, ours):
            own = {"speed": ours["speed"], "mib": ours["mib"]}
            other = {"other_speed": script["speed"], "other_mib": script["mib"]}
            found.add({"precision": accuracy, "strategy": name, **own, **other})
    found.end()


def work(
    who: str,
    name: str,
    config: str,
    sequences: int,
    length: int,
    rows: int,
    steps: int,
    vocabulary: int = 0,
) -> None:
    """Train in this process and print speed and memory; `rows` is the script's batch per device."""
    if torch.cuda.is_available():
        there = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, GPU_BYTES / there))
    model = random_model(config, torch.float32, vocabulary=vocabulary)
    vocabulary = model.config.get_text_config().vocab_size
    tokens = ADAPTED_TOKENS if name.startswith("vocadt") else vocabulary
    text = np.random.default_rng(0).integers(tokens, size=(steps * sequences, length))
    clock, new_ids = Clock(), list(range(vocabulary - NEW_TOKENS, vocabulary))
    more: Any = None
    if name == "distill":
        more = random_model(config, torch.float32, vocabulary=vocabulary, seed=1).eval()
    elif name.startswith("vocadt"):
        more = recipe(vocabulary)
    with TemporaryDirectory() as folder:
        script: Callable[..., None] = partial(train_with_script, rows=rows)
        train = train_ours if who == "ours" else script
        given = (model, name, text, sequences, new_ids, clock, Path(folder), more)
        took = measured(lambda: train(*given))
    found = {"speed": (steps - 1) * sequences * length / (clock.at[-1] - clock.at[0])}
    found["mib"] = found["reserved_mib"] = took["mib"]
    if torch.cuda.is_available():
        found["mib"] = torch.cuda.max_memory_allocated() / 2**20
        found["reserved_mib"] = torch.cuda.max_memory_reserved() / 2**20
    print(json.dumps(found))


def random_model(config: str, dtype: torch.dtype, *, vocabulary: int = 0, seed: int = 0) -> Any:
    """A model with random weights, created on the device: large ones take minutes on the CPU.

    `config` is a folder with a config.json, or empty for SmolLM2-135M's shape. With a `vocabulary`
    of 0, its size is that of the config.
    """
    torch.manual_seed(seed)
    settings = AutoConfig.from_pretrained(config) if config else LlamaConfig(**SMOLLM2)
    if vocabulary:
        settings.get_text_config().vocab_size = vocabulary
    with device():
        return AutoModelForCausalLM.from_config(settings, dtype=dtype)


def recipe(vocabulary: int) -> Recipe:
    """The initial recipe of adapters: each new token is the mean of three source tokens."""
    columns = np.random.default_rng(1).integers(vocabulary, size=(ADAPTED_TOKENS, 3))
    rows = np.repeat(np.arange(ADAPTED_TOKENS), 3)
    weights = np.full(columns.size, 1 / 3)
    shape = (ADAPTED_TOKENS, vocabulary)
    return Recipe(csr_array((weights, (rows, columns.ravel())), shape=shape), None, rows[::3])


class Clock(TrainerCallback):
    """Records when each step ended."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def on_step_end(self, args, state, control, **kwargs):
        """Record the time."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.at.append(time.perf_counter())


def train_ours(model, name, text, sequences, new_ids, clock, folder, more):
    """Train like a cell, without scoring; `more` is the teacher or the adapters' recipe."""
    phase = {"length": text.shape[1], **STRATEGIES[name]}
    strategy = read_strategy({"phases": [phase], "batch_sequences": sequences})
    first = strategy.phases[0]
    if first.adapter is not None:
        words = WordLevel({str(token): token for token in range(ADAPTED_TOKENS)}, unk_token="0")
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words))
        attach_adapters(model, tokenizer, more, first.adapter)
    frozen = FrozenWeights(model, None)
    frozen.prepare_phase(model, first, new_ids=new_ids)
    if torch.cuda.is_available():  # memory used while preparing the model does not count
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    objective = CausalModeling()
    if first.objective == "mtp":
        objective = MultiTokenPrediction(
            new_extra_head(model, "copied", 0), as_head=True, trained=True
        )
    elif isinstance(first, DistillPhase):
        objective = LogitDistillation(
            more.requires_grad_(False), first.distill, model.config.vocab_size
        )
    run_phase(
        model,
        first,
        strategy,
        SequenceDataset(
            pack(concatenate(text.astype(np.int32)), text.shape[1]), np.arange(len(text))
        ),
        objective=objective,
        seed=0,
        folder=folder,
        checkpoint=None,
        callbacks=[clock],
    )


def train_with_script(model, name, text, sequences, new_ids, clock, folder, more, *, rows):
    """Train as the documentation of Trainer and PEFT suggests."""
    from peft import LoraConfig, TrainableTokensConfig, get_peft_model

    kind = Trainer
    if name == "lora-clm":
        lora = LoraConfig(
            r=8,
            lora_alpha=32,
            lora_dropout=0.05,
            target_modules="all-linear",
            modules_to_save=["embed_tokens", "lm_head"],
            task_type="CAUSAL_LM",
        )
        model = get_peft_model(model, lora)
    elif name == "new-rows":
        model = get_peft_model(model, TrainableTokensConfig(token_indices=new_ids))
    elif name.startswith("vocadt"):
        model.requires_grad_(False)
        embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
        start = torch.from_numpy(more.rows(np.arange(ADAPTED_TOKENS)).toarray()).float()
        start, model.config.vocab_size = start.to(device()), ADAPTED_TOKENS
        model.set_input_embeddings(MadeEmbedding(start, embeddings.weight.detach()))
        model.set_output_embeddings(MadeHead(start, head.weight.detach()))
    elif name == "distill":
        kind = Taught
        model.teacher = [more]  # in a list, since it is not part of the model
    elif name != "all":
        model.requires_grad_(False)
        matrices = model.get_input_embeddings(), model.get_output_embeddings()
        layers = [] if name == "matrices" else [decoder_layers(model)[i] for i in LAYERS]
        for module in (*matrices, *layers):
            module.requires_grad_(True)
        if name == "2x2ls-mtp":
            model.extra_head = new_extra_head(model, "copied", 0)
            kind = TwoHeads
    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=sequences // rows,
        num_train_epochs=1,
        learning_rate=1e-4,
        weight_decay=0.01,
        lr_scheduler_type="cosine",
        bf16=precision() == torch.bfloat16,
        use_cpu=device().type == "cpu",
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        save_strategy="no",
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
    )
    data = [{"input_ids": torch.tensor(row), "labels": torch.tensor(row)} for row in text]
    kind(model=model, args=arguments, train_dataset=data, callbacks=[clock]).train()


class TwoHeads(Trainer):
    """Also predicts the token after next, with a second head."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """The sum of two cross-entropies over all logits."""
        out = model(**inputs, output_hidden_states=True)
        later = model.extra_head(out.hidden_states[-1])[:, :-2].flatten(0, 1).float()
        targets = inputs["labels"][:, 2:].flatten()
        return out.loss + torch.nn.functional.cross_entropy(later, targets)


class Taught(Trainer):
    """Half of the loss is the divergence from a teacher."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """The mean of cross-entropy and divergence over all logits."""
        out = model(**inputs)
        with torch.no_grad():
            taught = model.teacher[0](input_ids=inputs["input_ids"]).logits[:, :-1].flatten(0, 1)
        own = out.logits[:, :-1].flatten(0, 1).float().log_softmax(-1)
        soft = taught.float().log_softmax(-1)
        kl = torch.nn.functional.kl_div(own, soft, reduction="batchmean", log_target=True)
        return (out.loss + kl) / 2


class MadeEmbedding(torch.nn.Module):
    """Rows of `A E`, computed in full."""

    def __init__(self, start: torch.Tensor, source: torch.Tensor):
        super().__init__()
        self.adapter, self.source = torch.nn.Parameter(start.clone()), source

    def forward(self, ids):
        """The rows of token ids."""
        return torch.nn.functional.embedding(ids, self.adapter @ self.source)


class MadeHead(MadeEmbedding):
    """Logits with `A E` as head."""

    def forward(self, hidden):
        """Logits of hidden states."""
        return torch.nn.functional.linear(hidden, self.adapter @ self.source)


def _parser() -> argparse.ArgumentParser:
    found = parser(NAME, __doc__)
    found.add_argument("--config", type=Path, help="a folder with a config.json")
    found.add_argument(
        "--vocabulary", type=int, default=LARGE_VOCABULARY, help="tokens; 0: as in the config"
    )
    found.add_argument("--sequences", type=int, default=8, help="sequences per optimizer step")
    found.add_argument("--length", type=int, default=256, help="tokens per sequence")
    found.add_argument("--threads", type=int, default=2)
    found.add_argument(
        "--precision", action="append", choices=PRECISIONS, help="repeat it to measure both"
    )
    found.add_argument("names", nargs="*", choices=[*STRATEGIES, []], metavar="STRATEGY")
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        who, name, config, *sizes = sys.argv[2:]
        work(who, name, config, *map(int, sizes))
    else:
        main()
