"""Greedy generation in batches that stops at a line's end and resumes after an interruption."""

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError
from lexigraft.source.positions import positions_of

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast, StoppingCriteriaList

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Generated:
    """What a model wrote after one prompt.

    Attributes
    ----------
    text
        The text up to its first line feed, without spaces around it.
    tokens
        The ids that make up this text: neither the end-of-text token nor a bare line feed.
    steps
        Decoding steps taken: all generated tokens, the one that ended the text included.
    finished
        Whether the model ended the text itself, before it ran out of tokens.
    """

    text: str
    tokens: list[int]
    steps: int
    finished: bool


def generate(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    prompts: dict[str, str],
    *,
    max_new_tokens: int,
    batch_size: int,
    partial: Path,
    identity: str,
) -> dict[str, Generated]:
    """Continue every prompt greedily up to a line feed, an end-of-text token or `max_new_tokens`.

    Prompts are batched by length, the longest first, padded on the left and masked: in float32 the
    texts do not depend on the batch size. In bfloat16 they may, where two tokens are about equally
    likely.

    Parameters
    ----------
    prompts
        Id -> prompt text, tokenized with the special tokens that the tokenizer adds by default.
    partial
        JSON lines of what is finished, written after each batch. When it already holds outputs of
        the same `identity`, prompts and limits, their batches are not generated again. The caller
        removes it once the outputs are kept elsewhere.
    identity
        Whatever else decides the outputs: a digest of the model, for instance.

    Returns
    -------
    dict
        Id -> output, in the order of `prompts`.

    Raises
    ------
    UserError
        A prompt does not fit into the model's context.
    """
    from tqdm import tqdm

    encoded = {name: tokenizer(prompt)["input_ids"] for name, prompt in prompts.items()}
    _check_context(model, encoded, max_new_tokens)
    work = [identity, list(prompts.items()), max_new_tokens, batch_size]
    digest = hashlib.sha256(json.dumps(work).encode()).hexdigest()
    done = _open_partial(partial, digest)
    if done:
        logger.info("%s: %d of %d outputs are there already", partial, len(done), len(prompts))
    stops = newline_tokens(tokenizer)
    ends = end_tokens(model, tokenizer)
    ordered = sorted(prompts, key=lambda name: -len(encoded[name]))
    batches = [ordered[at : at + batch_size] for at in range(0, len(ordered), batch_size)]
    with partial.open("a", encoding="utf-8", newline="\n") as file:
        for batch in tqdm(batches, desc="generate", unit="batch", disable=None):
            # A batch of which a part is missing is repeated whole: same batches, same bfloat16.
            if all(name in done for name in batch):
                continue
            rows = continue_greedily(
                model,
                [encoded[name] for name in batch],
                padding=padding_token(tokenizer),
                stop_tokens=sorted(stops | ends),
                max_new_tokens=max_new_tokens,
            )
            for name, ids in zip(batch, rows.tolist(), strict=True):
                done[name] = _cut(tokenizer, ids, stops, ends)
            lines = (json.dumps({"id": name, **asdict(done[name])}) + "\n" for name in batch)
            file.write("".join(lines))
            file.flush()
    return {name: done[name] for name in prompts}


def continue_greedily(
    model: "PreTrainedModel",
    prompts: list[list[int]],
    *,
    padding: int,
    stop_tokens: list[int],
    max_new_tokens: int,
    min_new_tokens: int = 0,
    criteria: "StoppingCriteriaList | None" = None,
) -> "torch.Tensor":
    """The most likely continuation of each prompt, token by token.

    Parameters
    ----------
    prompts
        Token ids, of any lengths.
    padding
        Any id of the vocabulary: padded places are masked, so which one changes nothing.
    stop_tokens
        A row ends at the first of these; the rest of the row is padding.
    min_new_tokens
        Stop tokens are not generated before this many.

    Returns
    -------
    torch.Tensor
        Ids [len(prompts), steps], int64, steps ≤ `max_new_tokens`.
    """
    import torch
    from transformers import GenerationConfig

    width = max(len(ids) for ids in prompts)
    padded = [[padding] * (width - len(ids)) + ids for ids in prompts]
    mask = [[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts]
    settings = GenerationConfig(
        do_sample=False,
        max_new_tokens=max_new_tokens,
        min_new_tokens=min_new_tokens or None,
        eos_token_id=stop_tokens or None,
        pad_token_id=padding,
    )
    with _own_settings(model), torch.inference_mode():
        ids = model.generate(  # type: ignore[operator]
            torch.tensor(padded, device=model.device),
            attention_mask=torch.tensor(mask, device=model.device),
            generation_config=settings,
            stopping_criteria=criteria,
        )
    return ids[:, width:]


def newline_tokens(tokenizer: "PreTrainedTokenizerFast") -> set[int]:
    """Every token whose text holds a line feed, also in the midst of other characters.

    A line feed is a single byte in UTF-8, so it never lies across two tokens, and looking at
    tokens one by one misses none.
    """
    texts = decoded(tokenizer, [[token] for token in range(len(tokenizer))])
    return {token for token, text in enumerate(texts) if "\n" in text}


def decoded(tokenizer: "PreTrainedTokenizerFast", rows: list[list[int]]) -> list[str]:
    """The text of each row of ids, special tokens left out, spaces as they are."""
    return tokenizer.batch_decode(
        rows, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )


def end_tokens(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast") -> set[int]:
    """The end-of-text tokens that the tokenizer and the model's own generation settings name."""
    named = getattr(model.generation_config, "eos_token_id", None)
    ends = set(named) if isinstance(named, list) else {named}
    return {token for token in ends | {tokenizer.eos_token_id} if token is not None}


def padding_token(tokenizer: "PreTrainedTokenizerFast") -> int:
    """The tokenizer's padding token or, where it has none, token 0: padded places are masked."""
    return 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id


def _cut(
    tokenizer: "PreTrainedTokenizerFast", ids: list[int], stops: set[int], ends: set[int]
) -> Generated:
    """Cut a generated row at its first stop token; of that token keep what precedes the newline."""
    at = next((place for place, token in enumerate(ids) if token in stops | ends), None)
    if at is None:
        return Generated(decoded(tokenizer, [ids])[0].strip(), ids, len(ids), False)
    kept = ids[:at]
    if ids[at] in stops - ends and decoded(tokenizer, [[ids[at]]])[0].split("\n")[0].strip():
        kept = ids[: at + 1]
    text = decoded(tokenizer, [kept])[0].split("\n")[0]
    return Generated(text.strip(), kept, at + 1, True)


def _check_context(
    model: "PreTrainedModel", encoded: dict[str, list[int]], max_new_tokens: int
) -> None:
    limit = positions_of(model)
    name = max(encoded, key=lambda name: len(encoded[name]), default=None)
    if limit is not None and name is not None and len(encoded[name]) + max_new_tokens > limit:
        raise UserError(
            f"prompt '{name}' has {len(encoded[name])} tokens and with max_new_tokens "
            f"{max_new_tokens} exceeds the model's context of {limit}: lower max_new_tokens in "
            "config/tasks.yaml or leave this sentence out of the task's data"
        )


def _open_partial(partial: Path, digest: str) -> dict[str, Generated]:
    """Finished outputs of the same work; otherwise `partial` is begun anew.

    A line that an interruption cut off is dropped, from the file too, so that the next one does
    not continue it.
    """
    done: dict[str, Generated] = {}
    lines = partial.read_bytes().split(b"\n")[:-1] if partial.exists() else []
    header = json.dumps({"digest": digest}).encode()
    if lines[:1] != [header]:
        lines = [header]
    for line in lines[1:]:
        row: dict[str, Any] = json.loads(line)
        name = row.pop("id")
        done[name] = Generated(**row)
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.write_bytes(b"".join(line + b"\n" for line in lines))
    return done


@contextmanager
def _own_settings(model: "PreTrainedModel") -> Iterator[None]:
    """Set aside the sampling, penalties and limits that a model's files may ask of `generate`."""
    from transformers import GenerationConfig

    theirs = model.generation_config
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = theirs
