"""Time of generating and scoring, compared with the usual loops and with lm-evaluation-harness.

The model has the configuration of a folder with a config.json (by default SmolLM2-135M's shape) and
random weights. Prompts are random: 200 shared tokens and 20 to 60 different ones, as in few-shot
prompts. Each part runs in a separate process:

batches     `generate`, compared with the usual loop of one `model.generate` per prompt
harness     the same, compared with lm-evaluation-harness's generation in batches of the same size
prefix      `generate` with the prefix computed once, compared with once per batch
short       the same with the shortest prefix that is computed once
same-text   the time of a text as the speed task computes it, number of steps times time per step,
            compared with the time of a model that is forced to generate this text
texts       bits per byte of the prompts without the shared tokens, compared with the usual loop of
            one forward pass per text
choices     log-likelihoods of four answers to each of a quarter of the prompts, compared with
            lm-evaluation-harness, which computes them one by one by default
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from string import ascii_letters
from typing import Any
from unittest.mock import patch

import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedTokenizerFast

from benchmarks.measuring import in_its_own_process
from benchmarks.record import Measurements, described, parser, rounds
from benchmarks.training import SHAPE, random_model
from lexigraft.evaluation.harness.scoring import CellModel
from lexigraft.hardware import precision
from lexigraft.inference import generation, shared_prefix
from lexigraft.inference.generation import generate
from lexigraft.inference.likelihood import score_texts

NAME = "generation"
NEW_TOKENS = 24
BATCH = 8
SHARED = 200


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each part and its alternative, in seconds."""
    options = _parser().parse_args(arguments)
    run = described(
        "torch",
        "transformers",
        "lm-eval",
        model=options.config.name if options.config else SHAPE,
        precision=str(precision()).removeprefix("torch."),
        prompts=options.prompts,
        threads=options.threads,
    )
    found = Measurements(options, NAME, run, keys=1, order=[(name,) for name in PARTS])
    for (name,) in rounds(options, options.names or PARTS):
        given = ("--work", name, str(options.config or ""), str(options.prompts))
        took = in_its_own_process(NAME, *given, threads=options.threads)
        if not found.note_errors(name, took):
            found.add({"part": name, "seconds": took["after"], "other_seconds": took["before"]})
    found.end()


def work(name: str, config: str, prompts: int) -> None:
    """Measure one part in this process and print the result."""
    model = random_model(config, precision()).eval()
    model.generation_config.eos_token_id = None
    print(json.dumps(PARTS[name](model, byte_tokens(), prompts)))


def batches(model: Any, tokenizer: Any, prompts: int) -> dict[str, float]:
    """One prompt at a time, as in transformers' documentation, compared with batches."""

    def plain() -> None:
        for prompt in texts(prompts).values():
            ids = torch.tensor([tokenizer(prompt)["input_ids"]], device=model.device)
            model.generate(ids, do_sample=False, max_new_tokens=NEW_TOKENS, pad_token_id=0)

    return {"before": seconds(plain), "after": seconds(lambda: ours(model, tokenizer, prompts))}


def harness(model: Any, tokenizer: Any, prompts: int) -> dict[str, float]:
    """lm-evaluation-harness's generation, with the same number of prompts per batch."""
    theirs = HFLM(pretrained=model, tokenizer=byte_tokens("</s>"), batch_size=BATCH)
    settings = {"until": [], "do_sample": False, "max_gen_toks": NEW_TOKENS}
    asked = [
        Instance("generate_until", {}, (prompt, dict(settings)), at)
        for at, prompt in enumerate(texts(prompts).values())
    ]
    return {
        "before": seconds(lambda: theirs.generate_until(asked, disable_tqdm=True)),
        "after": seconds(lambda: ours(model, tokenizer, prompts)),
    }


def prefix(model: Any, tokenizer: Any, prompts: int, shared: int = SHARED) -> dict[str, float]:
    """The prefix computed in every batch, compared with once for all batches."""
    after = seconds(lambda: ours(model, tokenizer, prompts, shared))
    with patch.object(generation, "shared_prefix", return_value=None):
        before = seconds(lambda: ours(model, tokenizer, prompts, shared))
    return {"before": before, "after": after}


def short(model: Any, tokenizer: Any, prompts: int) -> dict[str, float]:
    """The shortest prefix that is computed once."""
    return prefix(model, tokenizer, prompts, shared_prefix.MIN_TOKENS)


def same_text(model: Any, tokenizer: Any, prompts: int) -> dict[str, float]:
    """A forced text, compared with its number of steps times the time of an unforced step."""
    prompt = tokenizer(list(texts(1).values()), return_tensors="pt").to(model.device)
    text = torch.randint(1, 256, (160,)).tolist()

    def write(steps: int, processor: LogitsProcessor | None = None) -> float:
        forced = LogitsProcessorList([processor] if processor else [])
        options = {"do_sample": False, "max_new_tokens": steps, "pad_token_id": 0}
        return seconds(lambda: model.generate(**prompt, **options, logits_processor=forced))

    write(2)
    first = write(1)
    free = write(33) - first
    written = write(len(text), Forced(text, prompt["input_ids"].shape[1])) - first
    return {"before": written, "after": free / 32 * (len(text) - 1)}


def bits_per_byte(model: Any, tokenizer: Any, prompts: int) -> dict[str, float]:
    """One forward pass per text, with the loss that the model computes, compared with batches."""
    tokenizer = byte_tokens("</s>")  # texts begin with it
    scored = list(texts(4 * prompts, 0).values())

    def plain() -> None:
        for text in scored:
            ids = torch.tensor([tokenizer(text)["input_ids"]], device=model.device)
            with torch.inference_mode():
                model(input_ids=ids, labels=ids).loss.item()

    return {
        "before": seconds(plain),
        "after": seconds(lambda: score_texts(model, tokenizer, scored)),
    }


def choices(model: Any, tokenizer: Any, prompts: int) -> dict[str, float]:
    """lm-evaluation-harness with its default batch size, compared with the default of the tasks."""
    tokenizer = byte_tokens("</s>")  # the harness requires one
    draw = random.Random(1)
    questions = [prompt for prompt in texts(max(1, prompts // 4)).values() for _ in range(4)]
    asked = [
        Instance("loglikelihood", {}, (question, "".join(draw.choices(ascii_letters, k=12))), at)
        for at, question in enumerate(questions)
    ]
    theirs = HFLM(pretrained=model, tokenizer=tokenizer)
    own = CellModel(model, tokenizer, None)
    return {
        "before": seconds(lambda: theirs.loglikelihood(asked, disable_tqdm=True)),
        "after": seconds(lambda: own.loglikelihood(asked, disable_tqdm=True)),
    }


class Forced(LogitsProcessor):
    """Forces the model to generate a given text."""

    def __init__(self, text: list[int], begin: int):
        self.text, self.begin = text, begin

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> Any:
        """Allow only the next token of the text."""
        wanted = self.text[input_ids.shape[1] - self.begin]
        only = torch.full_like(scores, -torch.inf)
        only[:, wanted] = 0
        return only


def ours(
    model: Any,
    tokenizer: Any,
    prompts: int,
    shared: int = SHARED,
    batch: int = BATCH,
    new_tokens: int = NEW_TOKENS,
) -> None:
    """Generate as the tasks do."""
    generate(
        model,
        tokenizer,
        texts(prompts, shared),
        max_new_tokens=new_tokens,
        batch_size=batch,
        stop=[],
    )


def texts(prompts: int, shared: int = SHARED) -> dict[str, str]:
    """Prompts of random letters, one token each, with a shared prefix."""
    draw = random.Random(0)
    before = "".join(draw.choices(ascii_letters, k=shared))
    return {
        str(at): before + "".join(draw.choices(ascii_letters, k=draw.randint(20, 60)))
        for at in range(prompts)
    }


def byte_tokens(end: str | None = None) -> PreTrainedTokenizerFast:
    """A tokenizer with one token per byte, and an EOS token if `end` is given."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({letter: at for at, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=end)


def seconds(run: Callable[[], object]) -> float:
    """The shortest of three runs; on a CPU its process time, since other processes may run too."""
    took: list[float] = []
    clock = time.perf_counter if torch.cuda.is_available() else time.process_time
    for _ in range(3):
        begin = clock()
        run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        took.append(clock() - begin)
    return min(took)


PARTS: dict[str, Callable[[Any, Any, int], dict[str, float]]] = {
    "batches": batches,
    "harness": harness,
    "prefix": prefix,
    "short": short,
    "same-text": same_text,
    "texts": bits_per_byte,
    "choices": choices,
}


def _parser() -> argparse.ArgumentParser:
    found = parser(NAME, __doc__)
    found.add_argument("--config", type=Path, help="a folder with a config.json")
    found.add_argument("--prompts", type=int, default=16)
    found.add_argument("--threads", type=int, default=1)
    found.add_argument("names", nargs="*", choices=[*PARTS, []], metavar="PART")
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        name, config, prompts = sys.argv[2:]
        work(name, config, int(prompts))
    else:
        main()
