"""A vLLM that runs on the CPU: as much of its module as generation uses."""

import sys
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import torch
from transformers import AutoModelForCausalLM

from lexigraft.source.tokenizer import load_tokenizer


@dataclass
class SamplingParams:
    """As vLLM's: by default 16 tokens are sampled at random."""

    temperature: float = 1.0
    max_tokens: int = 16
    stop: list[str] = field(default_factory=list)
    stop_token_ids: list[int] = field(default_factory=list)


class LLM:
    """Token ids in, token ids out; those that stop a text are among them, and maybe one more."""

    instances: list = []  # noqa: RUF012 (tests read it)
    running: set = set()  # noqa: RUF012 (folders of models whose process has not ended)
    fitting = 512  # tokens of a text for which there is memory

    def __init__(self, model: str, **options):
        self.options, self.batch_sizes = options, []
        self.model = AutoModelForCausalLM.from_pretrained(
            model, dtype=getattr(torch, options["dtype"])
        )
        self.tokenizer = load_tokenizer(model)
        self.model_config = SimpleNamespace(max_model_len=LLM.fitting)
        core = SimpleNamespace(shutdown=lambda: LLM.running.discard(model))
        self.llm_engine = SimpleNamespace(engine_core=core)
        LLM.running.add(model)
        LLM.instances.append(self)

    def generate(self, prompts, sampling_params, use_tqdm=True):
        assert sampling_params.temperature == 0
        self.batch_sizes.append(len(prompts))
        return [
            SimpleNamespace(
                outputs=[SimpleNamespace(token_ids=self._write(prompt, sampling_params))]
            )
            for prompt in prompts
        ]

    def _write(self, prompt, params) -> tuple[int, ...]:
        read, written, more = list(prompt["prompt_token_ids"]), [], 2
        assert self.options["max_model_len"] == -1  # as many tokens as fit into memory
        while len(written) < params.max_tokens and more:
            with torch.no_grad():
                logits = self.model(torch.tensor([read + written])).logits
            written.append(int(logits[0, -1].argmax()))
            text = self.tokenizer.decode(written)
            if written[-1] in params.stop_token_ids:
                break
            more -= any(one in text for one in params.stop)
        return tuple(written)


def install(monkeypatch) -> ModuleType:
    """Make `import vllm` find this module; `LLM.instances` then holds all engines."""
    module = ModuleType("vllm")
    module.__spec__ = ModuleSpec("vllm", None)
    module.LLM, module.SamplingParams, module.__version__ = LLM, SamplingParams, "0.30.0"
    monkeypatch.setitem(sys.modules, "vllm", module)
    LLM.instances.clear()
    LLM.running.clear()
    return module
