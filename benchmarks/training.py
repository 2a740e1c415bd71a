"""Speed and memory of training, against the plain Trainer and PEFT script a user would write.

python benchmarks/training.py [CONFIG_FOLDER] [--sequences N] [--length N] [--threads N] [NAME …]

The model is that of a folder with a config.json (by default SmolLM2-135M's shape), with random
weights; text is random too. Each strategy is trained for four steps in a process of its own, by
this library and by the script, with the same model, text, optimizer, batch and precision. Tokens
per second are those of all steps but the first; memory is the peak beyond the model itself, of the
GPU where there is one.
"""

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from measuring import in_its_own_process, measured
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    LlamaConfig,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from lexigraft.hardware import device, precision
from lexigraft.training.data import Blocks, Sequences
from lexigraft.training.objectives.clm import Clm
from lexigraft.training.objectives.mtp import Mtp, new_extra_head
from lexigraft.training.phase import run_phase
from lexigraft.training.settings import read_strategy
from lexigraft.training.trainable import decoder_layers, prepare

STEPS = 4
NEW_TOKENS = 1000
LAYERS = (0, 1, -2, -1)
SMOLLM2 = {
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
    "lora-clm": {"trainable": ["embeddings", "head", "lora"]},
    "2x2ls-clm": {"trainable": ["embeddings", "head", {"layers": list(LAYERS)}]},
    "2x2ls-mtp": {
        "trainable": ["embeddings", "head", {"layers": list(LAYERS)}],
        "objective": "mtp",
    },
    "new-rows": {"trainable": ["new-rows"]},
}


def main(arguments: argparse.Namespace) -> None:
    """Print tokens per second and MiB of each strategy, theirs, ours, and the ratio."""
    print(f"{'':12}{'tokens/s':>26}{'peak MiB':>28}")
    print(f"{'':12}{'script':>9}{'ours':>9}{'ratio':>8}{'script':>10}{'ours':>9}{'ratio':>9}")
    for name in arguments.names or STRATEGIES:
        given = [str(arguments.config or ""), str(arguments.sequences), str(arguments.length)]
        script, ours = (
            in_its_own_process(__file__, "--work", who, name, *given, threads=arguments.threads)
            for who in ("script", "ours")
        )
        if "error" in script or "error" in ours:
            print(f"{name:12}{script.get('error', '')} {ours.get('error', '')}", flush=True)
            continue
        speed, memory = ours["speed"] / script["speed"], ours["mib"] / script["mib"]
        print(
            f"{name:12}{script['speed']:9.0f}{ours['speed']:9.0f}{speed:8.2f}"
            f"{script['mib']:10.0f}{ours['mib']:9.0f}{memory:9.2f}",
            flush=True,
        )


def work(who: str, name: str, config: str, sequences: int, length: int) -> None:
    """Train in this process and print what it took."""
    torch.manual_seed(0)
    settings = AutoConfig.from_pretrained(config) if config else LlamaConfig(**SMOLLM2)
    model = AutoModelForCausalLM.from_config(settings, dtype=torch.float32).to(device())
    vocabulary = settings.get_text_config().vocab_size
    text = np.random.default_rng(0).integers(vocabulary, size=(STEPS * sequences, length))
    clock, new_ids = Clock(), list(range(vocabulary - NEW_TOKENS, vocabulary))
    with TemporaryDirectory() as folder:
        train = {"ours": train_ours, "script": train_with_script}[who]
        took = measured(lambda: train(model, name, text, sequences, new_ids, clock, Path(folder)))
    if torch.cuda.is_available():
        held = sum(p.numel() * p.element_size() for p in model.parameters())
        took["mib"] = (torch.cuda.max_memory_allocated() - held) / 2**20
    speed = (STEPS - 1) * sequences * length / (clock.at[-1] - clock.at[0])
    print(json.dumps({"speed": speed, "mib": took["mib"]}))


class Clock(TrainerCallback):
    """When each step ended."""

    def __init__(self):
        self.at: list[float] = []

    def on_step_end(self, args, state, control, **kwargs):
        """Note the time."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.at.append(time.perf_counter())


def train_ours(model, name, text, sequences, new_ids, clock, folder):
    """As a cell does, without scoring."""
    phase = {"length": text.shape[1], **STRATEGIES[name]}
    strategy = read_strategy({"phases": [phase], "batch_sequences": sequences})
    first = strategy.phases[0]
    prepare(model, first, new_ids)
    mtp = first.objective == "mtp"
    extra = new_extra_head(model, "copied", 0) if mtp else None
    run_phase(
        model,
        first,
        strategy,
        Sequences(Blocks(text.astype(np.int32).ravel(), text.shape[1]), np.arange(len(text))),
        objective=Clm() if extra is None else Mtp(extra, as_head=True, trained=True),
        seed=0,
        folder=folder,
        checkpoint=None,
        callbacks=[clock],
    )


def train_with_script(model, name, text, sequences, new_ids, clock, folder):
    """What the documentation of Trainer and PEFT leads to."""
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
    elif name != "all":
        model.requires_grad_(False)
        matrices = model.get_input_embeddings(), model.get_output_embeddings()
        for module in (*matrices, *(decoder_layers(model)[index] for index in LAYERS)):
            module.requires_grad_(True)
        if name == "2x2ls-mtp":
            model.extra_head = new_extra_head(model, "copied", 0)
            kind = TwoHeads
    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=sequences,
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
    rows = [{"input_ids": torch.tensor(row), "labels": torch.tensor(row)} for row in text]
    kind(model=model, args=arguments, train_dataset=rows, callbacks=[clock]).train()


class TwoHeads(Trainer):
    """The token after next, by a second head."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """Two cross-entropies of all logits, added up."""
        out = model(**inputs, output_hidden_states=True)
        later = model.extra_head(out.hidden_states[-1])[:, :-2].flatten(0, 1).float()
        targets = inputs["labels"][:, 2:].flatten()
        return out.loss + torch.nn.functional.cross_entropy(later, targets)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, help="a folder with a config.json")
    parser.add_argument("--sequences", type=int, default=8, help="of an optimizer step")
    parser.add_argument("--length", type=int, default=256, help="tokens of a sequence")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("names", nargs="*", choices=[*STRATEGIES, []])
    return parser.parse_args()


if __name__ == "__main__":
    import sys

    if sys.argv[1:2] == ["--work"]:
        who, name, config, *sizes = sys.argv[2:]
        work(who, name, config, *map(int, sizes))
    else:
        main(_arguments())
