"""Tests and benchmarks that need a GPU, in parts of less than ten minutes each.

python -m benchmarks.gpu [--rehearse] [--packages FOLDER] [PART …]

correctness  the tests of tests/gpu: losses, gradients, resumed runs, new rows, batches, prefixes
training     the models of Yamaguchi et al. at full size, and a plain Trainer and PEFT script
generation   tokens per second by batch size, and those of vLLM or, without it, `generate_batch`
cell         stories15m, adapted to Telugu and scored on the GPU and on the CPU

It needs one GPU, of which it uses at most 79 GiB, and no internet: weights are random, and `cell`
reads packages in a folder, which are downloaded only if missing. Each part replaces its own entry
of docs/results/gpu.json, which docs/gpu.md shows. `--rehearse` runs everything on the
CPU with tiny models and records nothing.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import AutoConfig

from benchmarks.cell import prepare
from benchmarks.generation import byte_tokens, ours, seconds, texts
from benchmarks.inputs import PACKAGES
from benchmarks.measuring import in_its_own_process
from benchmarks.memory import MODELS, NEW_TOKENS
from benchmarks.training import random_model
from lexigraft.errors import UserError
from lexigraft.hardware import PRECISION, device, precision
from workflow import pages, records
from workflow.config.registries import ROOT

NAME = "gpu"
# Model and strategy. Steps have as many sequences as in config/strategies.yaml.
TRAINED = (
    ("llama-2-7b", "lora-clm-2048"),
    ("llama-2-7b", "2x2ls-mtp-512"),
    ("llama-3-8b", "2x2ls-mtp-512"),
    ("gemma-2-9b", "2x2ls-mtp-512"),
)
SEQUENCES, STEPS = 8, 8
SCRIPT_TOKENS = 4096  # of a micro-batch of the script; if that does not fit, one sequence
FULL = "out of memory"  # part of torch's message
GENERATING = "llama-2-7b"
BATCHES = (8, 32, 64)
WRITTEN = 64  # tokens of each text
REHEARSING = "LEXIGRAFT_REHEARSE"  # tells tests/gpu to run on the CPU
TINY: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "vocab_size": 300,
}
VERSIONS = ("torch", "transformers", "peft")


@dataclass(frozen=True)
class Options:
    """How the parts run."""

    rehearse: bool
    packages: Path


@dataclass(frozen=True)
class Found:
    """The results of a part: column names, rows, and failed checks."""

    columns: list[str]
    rows: list[list[Any]]
    problems: list[str]


def main(arguments: argparse.Namespace) -> None:
    """Run the parts, then print and record their results."""
    if arguments.rehearse:
        os.environ |= {"CUDA_VISIBLE_DEVICES": "", REHEARSING: "1"}
    elif device().type != "cuda":
        sys.exit("error: no GPU is visible; --rehearse runs tiny models on the CPU")
    options = Options(arguments.rehearse, arguments.packages)
    problems: list[str] = []
    for part in arguments.parts or PARTS:
        found = PARTS[part](options)
        for row in (found.columns, *found.rows):
            print(part, *(f"{one:.4g}" if isinstance(one, float) else one for one in row), sep="\t")
        sys.stdout.flush()
        if found.rows and not options.rehearse:
            record(part, found)
        problems += [f"{part}: {problem}" for problem in found.problems]
    if problems:
        sys.exit("\n".join(problems))


def correctness(options: Options) -> Found:
    """The outcome of each test."""
    found = _child(NAME, "--work", "tests")
    rows = found.get("rows", [])
    problems = [found["error"]] if "error" in found else []
    problems += [f"{name}: {message}" for name, outcome, message in rows if outcome != "passed"]
    if not rows and not problems:
        problems = ["there are no tests"]
    return Found(["test", "outcome"], [row[:2] for row in rows], problems)


def training(options: Options) -> Found:
    """Speed and peak memory of a few steps, each measured in a separate process."""
    columns = ["model", "strategy", "tokens_per_second", "gibibytes", "reserved_gibibytes"]
    columns += ["script_tokens_per_second", "script_gibibytes", "script_sequences"]
    rows: list[list[Any]] = []
    problems: list[str] = []
    for model, strategy in TRAINED[::3] if options.rehearse else TRAINED:
        name, _, length = strategy.rpartition("-")
        sequences, tokens, steps = SEQUENCES, int(length), STEPS
        if options.rehearse:
            sequences, tokens, steps = 2, 16, 3
        with TemporaryDirectory() as folder:
            _config(model, options, NEW_TOKENS).save_pretrained(folder)
            sizes = [name, folder, str(sequences), str(tokens)]
            mine = _train("ours", *sizes, str(sequences), str(steps))
            for fitting in (min(sequences, SCRIPT_TOKENS // tokens), 1):
                plain = _train("script", *sizes, str(fitting), str(steps))
                if FULL not in plain.get("error", ""):
                    break
        errors = [found.get("error", "") for found in (mine, plain)]
        other = [error for error in errors if error and FULL not in error]
        problems += [f"{model}, {strategy}: {error}" for error in other or errors[:1] if error]
        if other:
            continue  # the page reports missing rows as "did not fit"
        rows.append([
            model, strategy, mine.get("speed"), _gib(mine, "mib"), _gib(mine, "reserved_mib"),
            plain.get("speed"), _gib(plain, "mib"), fitting,
        ])  # fmt: skip
    return Found(columns, rows, problems)


def generation(options: Options) -> Found:
    """Tokens per second of this library by batch size, then of an engine that batches itself."""
    rows: list[list[Any]] = []
    problems: list[str] = []
    engine = "vllm" if find_spec("vllm") else "generate_batch"
    sizes = (4, 2, 4) if options.rehearse else (WRITTEN, *BATCHES)
    with TemporaryDirectory() as folder:
        _config(GENERATING, options).save_pretrained(folder)
        for name in ("lexigraft", engine):
            found = _child(NAME, "--work", name, folder, *map(str, sizes))
            if "error" in found:
                problems.append(f"{name}: {found['error']}")
            rows += [[name, *row] for row in found.get("rows", [])]
    return Found(["engine", "batch", "tokens_per_second"], rows, problems)


def cell(options: Options) -> Found:
    """Bits per byte of held-out text before and after training, on both devices."""
    columns = ["device", "precision", "seconds", "before", "bits_per_byte"]
    rows = []
    # In a rehearsal, the CPU computes in the precision of a GPU.
    environments = {
        "gpu": {PRECISION: "bfloat16"} if options.rehearse else {},
        "cpu": {PRECISION: "float32", "CUDA_VISIBLE_DEVICES": ""},
    }
    with TemporaryDirectory() as folder:
        job = prepare(Path(folder), None if options.rehearse else options.packages)
        for where, environment in environments.items():
            job["outputs"] = {"folder": f"{folder}/training/{where}"}
            found = _child("cell", json.dumps(job), **environment)
            if "error" in found:
                return Found(columns, [], [f"{where}: {found['error']}"])
            rows.append([found[name] for name in columns])
    (*_, on_gpu), (*_, on_cpu) = rows
    problems = [] if abs(on_gpu / on_cpu - 1) < 0.01 else ["GPU and CPU differ by 1 % or more"]
    return Found(columns, rows, problems)


PARTS: dict[str, Callable[[Options], Found]] = {
    "correctness": correctness,
    "training": training,
    "generation": generation,
    "cell": cell,
}


def record(part: str, found: Found) -> None:
    """Replace a part's entry of the record, and fill the tables of the pages."""
    path = records.record_path("gpu")
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    run, tables = known.get("run", {}), known.get("tables", {})
    card = _child(NAME, "--work", "card")
    lines = (ROOT / "envs/main.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("#")[0].strip().split("==") for line in lines if "==" in line)
    here = {name: version(name).split("+")[0] for name in VERSIONS}
    pinned = {name: pins[name] for name in here if here[name] != pins[name]}
    run[part] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        **card,
        "versions": here,
        "pinned": pinned,
    }
    tables[part] = [found.columns, *found.rows]
    records.write_record("gpu", {"run": run, "tables": tables})
    pages.main()


def work(name: str, *given: str) -> dict[str, Any]:
    """The work of a separate process."""
    if name == "card":
        return {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
    if name == "tests":
        return {"rows": run_tests(ROOT / "tests/gpu")}
    written, *batches = map(int, given[1:])
    return {"rows": rates(name, given[0], written, batches)}


def rates(engine: str, config: str, written: int, batches: list[int]) -> list[list[Any]]:
    """Batch sizes and tokens per second of an engine on as many prompts as the last batch size.

    Only this library receives a batch size.
    """
    prompts = batches[-1]
    model, tokenizer = random_model(config, precision()).eval(), byte_tokens()
    model.generation_config.eos_token_id = None
    run = partial(ours, tokenizer=tokenizer, prompts=prompts, new_tokens=written)
    runs: list[tuple[int, Callable[[], object]]]
    if engine == "lexigraft":
        runs = [(batch, partial(run, model, batch=batch)) for batch in batches]
    elif engine == "generate_batch":
        runs = [(prompts, continuous_batches(model, tokenizer, prompts, written))]
    else:
        from lexigraft.inference.vllm_model import VllmModel

        with TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            del model  # vLLM takes most of the memory
            torch.cuda.empty_cache()
            vllm = VllmModel(folder, precision())
            took = seconds(partial(run, vllm))
            vllm.close()
            return [[prompts, prompts * written / took]]
    return [[batch, prompts * written / seconds(run)] for batch, run in runs]


def continuous_batches(
    model: Any, tokenizer: Any, prompts: int, written: int
) -> Callable[[], object]:
    """Generation with transformers' own scheduler, for the same prompts as `ours`."""
    from transformers import GenerationConfig
    from transformers.generation.configuration_utils import ContinuousBatchingConfig

    ids = [tokenizer(text)["input_ids"] for text in texts(prompts).values()]
    settings = GenerationConfig(
        max_new_tokens=written, do_sample=False, eos_token_id=-1, pad_token_id=0
    )
    # Two pages of 256 tokens per prompt; by default it takes all available memory.
    cache = ContinuousBatchingConfig(num_blocks=2 * prompts, max_batch_tokens=4096)

    def run() -> None:
        done = model.generate_batch(
            ids, generation_config=settings, continuous_batching_config=cache
        )
        if sum(len(one.generated_tokens) for one in done.values()) != prompts * written:
            raise RuntimeError("generate_batch ended early")

    return run


def run_tests(folder: Path) -> list[list[str]]:
    """Name, outcome and message of each test in a folder."""
    import pytest

    rows: list[list[str]] = []

    class Outcomes:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.when == "call" or report.outcome != "passed":
                message = (report.longreprtext.splitlines() or [""])[-1]
                rows.append([report.nodeid.partition("::")[2], report.outcome, message])

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            if report.failed:
                rows.append([report.nodeid, "failed", report.longreprtext.splitlines()[-1]])

    pytest.main(["-q", "-p", "no:cacheprovider", str(folder)], plugins=[Outcomes()])
    return rows


def _config(model: str, options: Options, new_tokens: int = 0) -> Any:
    kind, own = MODELS[model]
    config = AutoConfig.for_model(kind, **own | (TINY if options.rehearse else {}))
    config.vocab_size += 0 if options.rehearse else new_tokens
    return config


def _train(*given: str) -> dict[str, Any]:
    return _child("training", "--work", *given)


def _child(name: str, *arguments: str, **environment: str) -> dict[str, Any]:
    threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
    return in_its_own_process(name, *arguments, threads=threads, **environment)


def _gib(found: dict[str, Any], name: str) -> float | None:
    return found[name] / 2**10 if name in found else None


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rehearse", action="store_true", help="tiny models on the CPU, no record")
    parser.add_argument("--packages", type=Path, default=PACKAGES)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    return parser.parse_args()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        print(json.dumps(work(*sys.argv[2:])))
    else:
        try:
            main(_arguments())
        except UserError as error:
            sys.exit(f"error: {error}")
