"""What generation gains by batches, by reading a shared prefix once, and by stopping early.

The model is that of a folder with a config.json (by default SmolLM2-135M's shape), with random
weights and tokens; prompts are 200 tokens that all have in common and 20 to 60 of their own, as
with a few examples. Each part runs in a process of its own:

batches     `generate`, against the loop that a user would write, one `model.generate` per prompt
prefix      `generate` with the prefix read once, against reading it for every batch
short       the same with a prefix of only as many tokens as are worthwhile
watch       seconds per step of looking for stop strings in 16 rows, against those of the model
same-text   the time of a text by the speed task's account, steps times the time of a step, against
            the time of a model that is forced to write that very text
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from string import ascii_letters
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedTokenizerFast

from benchmarks.measuring import in_its_own_process
from benchmarks.record import Measurements, described, parser, rounds
from benchmarks.training import SHAPE, random_model
from lexigraft.hardware import precision
from lexigraft.inference import generation, shared_prefix
from lexigraft.inference.generation import generate
from lexigraft.inference.stop_strings import StopCriterion, StopStrings

NAME = "generation"
NEW_TOKENS = 24
BATCH = 8
SHARED = 200


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each part, and what it is compared with, in seconds."""
    options = _parser().parse_args(arguments)
    found = Measurements()
    for (name,) in rounds(options, options.names or PARTS):
        given = ("--work", name, str(options.config or ""), str(options.prompts))
        took = in_its_own_process(NAME, *given, threads=options.threads)
        if not found.note_errors(name, took):
            found.add({"part": name, "seconds": took["after"], "other_seconds": took["before"]})
    run = described(
        "torch",
        "transformers",
        model=options.config.name if options.config else SHAPE,
        precision=str(precision()).removeprefix("torch."),
        prompts=options.prompts,
        threads=options.threads,
    )
    found.end(options, NAME, run, keys=1, order=[(name,) for name in PARTS])


def work(name: str, config: str, prompts: int) -> None:
    """Measure one part in this process, and print it."""
    model = random_model(config, precision()).eval()
    model.generation_config.eos_token_id = None
    print(json.dumps(PARTS[name](model, byte_tokens(), prompts)))


def batches(model: Any, tokenizer: Any, prompts: int) -> dict[str, float]:
    """One prompt at a time, as transformers' pages show it, against batches."""

    def plain() -> None:
        for prompt in texts(prompts).values():
            ids = torch.tensor([tokenizer(prompt)["input_ids"]], device=model.device)
            model.generate(ids, do_sample=False, max_new_tokens=NEW_TOKENS, pad_token_id=0)

    return {"before": seconds(plain), "after": seconds(lambda: ours(model, tokenizer, prompts))}


def prefix(model: Any, tokenizer: Any, prompts: int, shared: int = SHARED) -> dict[str, float]:
    """The prefix in every batch, against once for all."""
    after = seconds(lambda: ours(model, tokenizer, prompts, shared))
    with patch.object(generation, "shared_prefix", return_value=None):
        before = seconds(lambda: ours(model, tokenizer, prompts, shared))
    return {"before": before, "after": after}


def short(model: Any, tokenizer: Any, prompts: int) -> dict[str, float]:
    """The shortest prefix that is read ahead."""
    return prefix(model, tokenizer, prompts, shared_prefix.MIN_TOKENS)


def watch(model: Any, tokenizer: Any, prompts: int) -> dict[str, float]:
    """A step of the model, against that of looking at its tokens."""
    criterion: Any = StopCriterion(StopStrings(tokenizer, ["\n\n", "Question:"]), 16)
    rows = torch.randint(1, 256, (16, 1), device=model.device)
    steps = 200

    def look() -> None:
        for _ in range(steps):
            criterion._tails = [b"ab"] * 16
            criterion(rows, None)

    def step() -> None:
        with torch.inference_mode():
            model(input_ids=rows)

    step()
    return {"before": seconds(step), "after": seconds(look) / steps}


def same_text(model: Any, tokenizer: Any, prompts: int) -> dict[str, float]:
    """A text forced on the model, against its steps times the time of a free step."""
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


class Forced(LogitsProcessor):
    """Lets the model write a text, whatever it would rather write."""

    def __init__(self, text: list[int], begin: int):
        self.text, self.begin = text, begin

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> Any:
        """Only the next token of the text is possible."""
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
    """Generate as tasks do."""
    with TemporaryDirectory() as folder:
        generate(
            model,
            tokenizer,
            texts(prompts, shared),
            max_new_tokens=new_tokens,
            batch_size=batch,
            partial=Path(folder) / "partial.jsonl",
            identity="",
            stop=[],
        )


def texts(prompts: int, shared: int = SHARED) -> dict[str, str]:
    """Prompts of random letters, a token each, that begin with the same ones."""
    draw = random.Random(0)
    before = "".join(draw.choices(ascii_letters, k=shared))
    return {
        str(at): before + "".join(draw.choices(ascii_letters, k=draw.randint(20, 60)))
        for at in range(prompts)
    }


def byte_tokens() -> PreTrainedTokenizerFast:
    """A token for each byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({letter: at for at, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def seconds(run: Callable[[], object]) -> float:
    """How long it takes, of three times the shortest: of a CPU its own time, others may use it."""
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
    "prefix": prefix,
    "short": short,
    "watch": watch,
    "same-text": same_text,
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
