"""Generation with vLLM, which forms batches itself."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig

from lexigraft.errors import UserError
from lexigraft.hardware import device
from lexigraft.source.model import load_config


class VllmModel:
    """A model run by vLLM, with the attributes that tasks read from any model.

    `folder` is a plain Hugging Face folder of model and tokenizer; `dtype` is that of the
    computation. `config`, `generation_config`, `dtype` and `device` are like those of a
    `PreTrainedModel`; `name` has the engine and its version. Raises a UserError if vLLM is not
    installed.
    """

    def __init__(self, folder: str | Path, dtype: torch.dtype):
        self.name = engine_name()
        self.config = load_config(Path(folder))
        self.generation_config = GenerationConfig()
        if (Path(folder) / "generation_config.json").is_file():
            self.generation_config = GenerationConfig.from_pretrained(folder)
        self.dtype = dtype
        self.device = device()
        self._folder = Path(folder)
        self._engine: Any = None

    def modules(self) -> Iterator[Any]:
        """No modules: the layers are vLLM's."""
        return iter(())

    def continue_greedily(
        self,
        prompts: list[list[int]],
        *,
        stop: Sequence[str],
        stop_tokens: list[int],
        max_new_tokens: int,
    ) -> list[list[int]]:
        """Continue each prompt with the most likely token at each step; all are token ids.

        A continuation ends with the token that completes a string of `stop` or is in `stop_tokens`,
        or a few tokens later. Raises a UserError if a prompt with its continuation does not fit
        into vLLM's memory.
        """
        from vllm import LLM, SamplingParams

        if self._engine is None:
            os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")  # or it reports the machine and model
            self._engine = LLM(
                model=str(self._folder),
                dtype=str(self.dtype).removeprefix("torch."),
                max_model_len=-1,  # as many as fit into memory: later tasks may have longer prompts
                seed=0,
            )
        # vLLM silently ends a text at this length.
        limit = self._engine.model_config.max_model_len
        if (longest := max(map(len, prompts)) + max_new_tokens) > limit:
            raise UserError(
                f"vLLM has memory for texts of {limit:,} tokens, but a prompt with max_new_tokens "
                f"has {longest:,}: lower max_new_tokens, or set engine: transformers"
            )
        # Sampling and penalties in the model's own files are ignored.
        settings = SamplingParams(
            temperature=0.0, max_tokens=max_new_tokens, stop=list(stop), stop_token_ids=stop_tokens
        )
        outputs = self._engine.generate(
            [{"prompt_token_ids": ids} for ids in prompts], settings, use_tqdm=sys.stderr.isatty()
        )
        return [list(output.outputs[0].token_ids) for output in outputs]

    def close(self) -> None:
        """End vLLM's process, which would keep its memory after this object is deleted."""
        if self._engine is not None:
            self._engine.llm_engine.engine_core.shutdown()
            self._engine = None


def engine_name() -> str:
    """The name and version of the installed vLLM; raises a UserError if there is none."""
    try:
        import vllm
    except ImportError as error:
        raise UserError(
            f"vLLM cannot be used here ({error}): install it as described in docs/generation.md, "
            "or set engine: transformers for the task or LEXIGRAFT_ENGINE=transformers for this "
            "machine"
        ) from None
    return f"vllm {vllm.__version__}"
