"""Generation in batches that ends at stop strings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tqdm import tqdm
from transformers import (
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    StoppingCriteriaList,
)

from lexigraft.errors import UserError
from lexigraft.inference.batch_sizes import default_prompts, generation_limits, run_batches
from lexigraft.inference.shared_prefix import SharedPrefix, group_by_prefix, shared_prefix
from lexigraft.inference.stop_strings import StopStrings
from lexigraft.inference.text_encoding import encode
from lexigraft.inference.vllm_model import VllmModel
from lexigraft.source.positions import answer_room, positions_of


@dataclass(frozen=True)
class GeneratedText:
    """A generated continuation of one prompt."""

    text: str  # before its first stop string, stripped
    tokens: list[int]  # of this text, without the end-of-text token and the stop string's tokens
    steps: int  # decoding steps: all generated tokens, including those that ended the text
    finished: bool  # whether the model ended the text before `max_new_tokens`


def generate(
    model: PreTrainedModel | VllmModel,
    tokenizer: PreTrainedTokenizerFast,
    prompts: Mapping[str, str | list[int]],
    *,
    max_new_tokens: int,
    batch_size: int | None = None,
    stop: Sequence[str] = ("\n",),
    skip_empty: bool = False,
    beams: int = 1,
    beyond_context: bool = False,
) -> dict[str, GeneratedText]:
    """Continue every prompt greedily up to a stop string, an end-of-text token or a limit.

    Prompts are batched by length, longest first, with masked padding on the left, as many as fit
    into memory (`batch_sizes`). In float32, the texts do not depend on the batches, except for
    architectures that do not mask padding (RWKV, RecurrentGemma, DeepSeek-V4, HY-V4); in bfloat16
    they may. A prefix that many prompts share is processed only once. A `VllmModel` forms its own
    batches. The result maps ids to outputs, in the order of `prompts`.

    Parameters
    ----------
    prompts
        Id -> prompt: a text, tokenized like the texts of training, or token ids.
    batch_size
        Maximum prompts of a batch; the default depends on the device.
    stop
        Strings that end a text, by default a line feed, exactly before the string. After one that
        spans several tokens, transformers generates up to the limit; the text is cut afterwards.
    skip_empty
        Stop strings count only after text that is not blank. Generation then goes on to an
        end-of-text token or the limit, and the text is cut afterwards, as in VocADT's code.
    beams
        Number of beams of a beam search, which returns the most likely text; 1 is greedy.
    beyond_context
        Only prompts must fit into the model's context, if it has rotary position embeddings.

    Raises
    ------
    UserError
        A prompt does not fit into the model's context, a stop string is empty, or several beams are
        requested with vLLM.
    """
    texts = {name: prompt for name, prompt in prompts.items() if isinstance(prompt, str)}
    encoded: dict[str, Any] = {**prompts}
    encoded |= zip(texts, encode(tokenizer, [*texts.values()]), strict=True)
    vllm = model if isinstance(model, VllmModel) else None
    either: Any = model  # has the attributes of both classes that are read
    limit = positions_of(either)
    longest = max(map(len, encoded.values()), default=0)
    if limit and longest + answer_room(model, max_new_tokens, beyond_context) > limit:
        raise UserError(
            f"max_new_tokens: {max_new_tokens} and a prompt of {longest} tokens exceed the model's "
            f"context of {limit}; lower it in config/tasks.yaml, or remove this prompt's sentence"
        )
    if beams > 1 and vllm:
        raise UserError("vLLM generates greedily only: set beams to 1, or remove engine")
    done: dict[str, GeneratedText] = {}
    stops, ends = StopStrings(tokenizer, stop), end_tokens(model, tokenizer)
    stop_tokens = sorted(ends if skip_empty else stops.tokens | ends)
    prefix: SharedPrefix | None = None
    groups = [list(prompts)] if prompts else []
    if not vllm:
        groups = group_by_prefix(encoded, 2 * (batch_size or default_prompts(model)))

    def length(name: str) -> int:
        return len(encoded[name]) + max_new_tokens

    def continue_batch(names: Sequence[str]) -> list[list[int]]:
        """Continuations of prompts, possibly beyond a stop string."""
        batch = [encoded[name] for name in names]
        options: Any = {"stop_tokens": stop_tokens, "max_new_tokens": max_new_tokens}
        if vllm:
            return vllm.continue_greedily(batch, stop=() if skip_empty else stop, **options)
        options |= {"padding": padding_token(tokenizer), "prefix": prefix, "beams": beams}
        return continue_greedily(either, batch, **options).tolist()

    with tqdm(total=len(prompts), desc="generate", unit="text", disable=None) as progress:
        for group in groups:
            group.sort(key=length, reverse=True)
            max_tokens = max_prompts = math.inf
            if not vllm:
                prefix = shared_prefix(either, [encoded[name] for name in group], max_new_tokens)
                longest = length(group[0])
                max_tokens, max_prompts = generation_limits(either, longest, batch_size)
            limits = {"max_tokens": max_tokens / beams, "max_items": max_prompts}
            for batch, rows in run_batches(group, length, continue_batch, **limits):
                for name, ids in zip(batch, rows, strict=True):
                    done[name] = cut(tokenizer, ids, stops, ends, skip_empty)
                progress.update(len(batch))
    return {name: done[name] for name in prompts}


def continue_greedily(
    model: PreTrainedModel,
    prompts: list[list[int]],
    *,
    padding: int,
    stop_tokens: list[int],
    max_new_tokens: int,
    min_new_tokens: int = 0,
    criteria: StoppingCriteriaList | None = None,
    prefix: SharedPrefix | None = None,
    beams: int = 1,
) -> torch.Tensor:
    """Continue each prompt with the most likely token at each step.

    Padding is masked, so `padding` may be any id of the vocabulary. A row ends at the first of
    `stop_tokens`, but not before `min_new_tokens`; the rest of it is padding. `criteria` are called
    after each step and may end a row. `prefix` is the shared prefix of all prompts, if it has been
    processed. With `beams` above 1, the beam with the highest mean log-likelihood per token is
    returned.

    Returns ids [len(prompts), steps], int64, steps ≤ `max_new_tokens`.
    """
    shared = prefix.token_ids if prefix else []
    rows = [ids[len(shared) :] for ids in prompts]
    width = max(map(len, rows))
    # Padding comes after the shared prefix, so that its positions are the same in all rows.
    padded = [[*shared, *[padding] * (width - len(ids)), *ids] for ids in rows]
    mask = [[1] * len(shared) + [0] * (width - len(ids)) + [1] * len(ids) for ids in rows]
    cache = {"past_key_values": prefix.repeat(len(prompts) * beams)} if prefix else {}
    settings = GenerationConfig(
        do_sample=False,
        num_beams=beams,
        max_new_tokens=max_new_tokens,
        min_new_tokens=min_new_tokens or None,
        eos_token_id=stop_tokens or None,
        pad_token_id=padding,
    )
    # Sampling, penalties and limits in the generation settings of the model's files are ignored.
    model_settings, model.generation_config = model.generation_config, GenerationConfig()
    try:
        with torch.inference_mode():
            ids = model.generate(  # type: ignore[operator]
                torch.tensor(padded, device=model.device),
                attention_mask=torch.tensor(mask, device=model.device),
                generation_config=settings,
                stopping_criteria=criteria,
                **cache,
            )
    finally:
        model.generation_config = model_settings
    return ids[:, len(shared) + width :]


def decode(tokenizer: PreTrainedTokenizerFast, rows: list[list[int]]) -> list[str]:
    """The text of each row of ids without special tokens, spaces unchanged."""
    return tokenizer.batch_decode(
        rows, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )


def end_tokens(model: PreTrainedModel | VllmModel, tokenizer: PreTrainedTokenizerFast) -> set[int]:
    """The end-of-text tokens of the tokenizer and of the model's generation settings."""
    named = getattr(model.generation_config, "eos_token_id", None)
    ends = set(named) if isinstance(named, list) else {named}
    return {token for token in ends | {tokenizer.eos_token_id} if token is not None}


def padding_token(tokenizer: PreTrainedTokenizerFast) -> int:
    """The tokenizer's padding token or, without one, token 0: padding is masked."""
    return 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id


def cut(
    tokenizer: PreTrainedTokenizerFast,
    ids: list[int],
    stops: StopStrings,
    ends: set[int],
    skip_empty: bool = False,
) -> GeneratedText:
    """Cut a generated row where its text ends, within a token if necessary."""
    end = next((index for index, token in enumerate(ids) if token in ends), None)
    tokens = ids[:end]
    stop = stops.find(tokens, after_text=skip_empty)
    if stop is None:
        text, steps = decode(tokenizer, [tokens])[0], len(tokens) + (end is not None)
        return GeneratedText(text.strip(), tokens, steps, finished=end is not None)
    text = decode(tokenizer, [tokens[: stop.last + 1]])[0]
    text = text.lstrip() if skip_empty else text
    tokens = tokens[: stop.tokens_before + bool(stop.part.strip())]
    begins = [begin for begin in map(text.find, stops.strings) if begin >= 0]
    # With some decoders, invalid bytes and special tokens hide a string that follows them.
    text = text[: min(begins)] if begins else decode(tokenizer, [tokens])[0]
    return GeneratedText(text.strip(), tokens, stop.last + 1, finished=True)
