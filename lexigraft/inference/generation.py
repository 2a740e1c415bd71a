"""Greedy generation in batches that stops at given strings and resumes after an interruption."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.atomic import replacing
from lexigraft.errors import UserError
from lexigraft.inference.shared_prefix import SharedPrefix, group_by_prefix, shared_prefix
from lexigraft.inference.stop_strings import StopStrings
from lexigraft.inference.vllm_model import PROMPTS_PER_CALL, VllmModel
from lexigraft.source.positions import positions_of

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast, StoppingCriteriaList

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GeneratedText:
    """What a model wrote after one prompt.

    Attributes
    ----------
    text
        The text up to its first stop string, without spaces around it.
    tokens
        The ids that make up this text: neither the end-of-text token nor one that only belongs to a
        stop string.
    steps
        Decoding steps taken: all generated tokens, those that ended the text included.
    finished
        Whether the model ended the text itself, before it ran out of tokens.
    """

    text: str
    tokens: list[int]
    steps: int
    finished: bool


def generate(
    model: "PreTrainedModel | VllmModel",
    tokenizer: "PreTrainedTokenizerFast",
    prompts: dict[str, str],
    *,
    max_new_tokens: int,
    batch_size: int,
    partial: Path,
    identity: str,
    stop: Sequence[str] = ("\n",),
    beams: int = 1,
) -> dict[str, GeneratedText]:
    """Continue every prompt greedily up to a stop string, an end-of-text token or a limit.

    Prompts are batched by length, the longest first, padded on the left and masked: in float32 the
    texts do not depend on the batch size. In bfloat16 they may, where two tokens are about equally
    likely. What many prompts begin with, such as a few examples, is read once for all of them.

    Parameters
    ----------
    model
        Or a `VllmModel`, which makes batches of its own.
    prompts
        Id -> prompt text, tokenized with the special tokens that the tokenizer adds by default.
    partial
        JSON lines of what is finished, written after each batch. When it already holds outputs of
        the same `identity`, prompts and limits, their batches are not generated again. The caller
        removes it once the outputs are kept elsewhere.
    identity
        Whatever else decides the outputs: a digest of the model, for instance.
    stop
        Strings at which a text ends, by default at its first line feed. The text ends exactly
        before the string, also where the string begins or ends within a token.
    beams
        Candidates of a beam search, of which the likeliest is taken; 1 is greedy.

    Returns
    -------
    dict
        Id -> output, in the order of `prompts`.

    Raises
    ------
    UserError
        A prompt does not fit into the model's context, a stop string is empty, or vLLM is to
        search with beams.
    """
    from tqdm import tqdm

    encoded = {name: tokenizer(prompt)["input_ids"] for name, prompt in prompts.items()}
    _check_context(model, encoded, max_new_tokens)
    if beams > 1 and isinstance(model, VllmModel):
        raise UserError("vLLM continues texts greedily here: set beams to 1, or take engine out")
    work = [identity, list(prompts.items()), max_new_tokens, batch_size, list(stop), beams]
    digest = hashlib.sha256(json.dumps(work).encode()).hexdigest()
    done = _open_partial(partial, digest)
    if done:
        logger.info("%s: %d of %d outputs are there already", partial, len(done), len(prompts))
    stops, ends = StopStrings(tokenizer, stop), end_tokens(model, tokenizer)
    if isinstance(model, VllmModel):
        groups, batch_size = [list(prompts)], PROMPTS_PER_CALL
    else:
        groups = group_by_prefix(encoded, 2 * batch_size)
    with (
        partial.open("a", encoding="utf-8", newline="\n") as file,
        tqdm(total=len(prompts), desc="generate", unit="text", disable=None) as progress,
    ):
        for group in groups:
            # A batch of which a part is missing is repeated whole: same batches, same bfloat16.
            batches = [
                batch
                for batch in _by_length(group, encoded, batch_size)
                if not all(name in done for name in batch)
            ]
            progress.update(len(group) - sum(map(len, batches)))
            if not batches:
                continue
            texts = [encoded[name] for name in group]
            continue_batch = _continuation(
                model, tokenizer, texts, stops, ends, max_new_tokens, beams
            )
            for batch in batches:
                rows = continue_batch([encoded[name] for name in batch])
                for name, ids in zip(batch, rows, strict=True):
                    done[name] = _cut(tokenizer, ids, stops, ends)
                file.write(_as_lines((name, done[name]) for name in batch))
                file.flush()
                progress.update(len(batch))
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
    prefix: SharedPrefix | None = None,
    beams: int = 1,
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
    criteria
        What else ends a row; what follows in the row is then of no meaning.
    prefix
        What all prompts begin with, if it was read already.
    beams
        Above 1 the likeliest of so many candidates is returned, each scored as a whole by the
        mean over its tokens; `criteria` may then not look at rows.

    Returns
    -------
    torch.Tensor
        Ids [len(prompts), steps], int64, steps ≤ `max_new_tokens`.
    """
    import torch
    from transformers import GenerationConfig

    shared = prefix.ids if prefix else []
    rests = [ids[len(shared) :] for ids in prompts]
    width = max(map(len, rests))
    # Padding stands right before what differs, so that what is shared lies in the same places.
    padded = [[*shared, *[padding] * (width - len(ids)), *ids] for ids in rests]
    mask = [[1] * len(shared) + [0] * (width - len(ids)) + [1] * len(ids) for ids in rests]
    read = {"past_key_values": prefix.repeat(len(prompts) * beams)} if prefix else {}
    settings = GenerationConfig(
        do_sample=False,
        num_beams=beams,
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
            **read,
        )
    return ids[:, len(shared) + width :]


def decode(tokenizer: "PreTrainedTokenizerFast", rows: list[list[int]]) -> list[str]:
    """The text of each row of ids, special tokens left out, spaces as they are."""
    return tokenizer.batch_decode(
        rows, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )


def end_tokens(
    model: "PreTrainedModel | VllmModel", tokenizer: "PreTrainedTokenizerFast"
) -> set[int]:
    """The end-of-text tokens that the tokenizer and the model's own generation settings name."""
    named = getattr(model.generation_config, "eos_token_id", None)
    ends = set(named) if isinstance(named, list) else {named}
    return {token for token in ends | {tokenizer.eos_token_id} if token is not None}


def padding_token(tokenizer: "PreTrainedTokenizerFast") -> int:
    """The tokenizer's padding token or, where it has none, token 0: padded places are masked."""
    return 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id


def _open_partial(partial: Path, digest: str) -> dict[str, GeneratedText]:
    """Finished outputs of the same work; otherwise `partial` is begun anew.

    A line that an interruption cut off is dropped, from the file too, so that the next one does
    not continue it.

    Parameters
    ----------
    partial
        A file that may be there.
    digest
        Of all that decides the outputs.
    """
    kept = partial.read_bytes() if partial.exists() else b""
    lines = kept.split(b"\n")[:-1]
    header = json.dumps({"digest": digest}).encode()
    if lines[:1] != [header]:
        lines = [header]
    done: dict[str, GeneratedText] = {}
    for line in lines[1:]:
        row: dict[str, Any] = json.loads(line)
        name = row.pop("id")
        done[name] = GeneratedText(**row)
    whole = b"".join(line + b"\n" for line in lines)
    if whole != kept:
        partial.parent.mkdir(parents=True, exist_ok=True)
        with replacing(partial) as file:
            file.write_bytes(whole)
    return done


def _as_lines(outputs: Iterable[tuple[str, GeneratedText]]) -> str:
    """JSON lines of `(id, output)`, to be appended to what `_open_partial` opened."""
    return "".join(json.dumps({"id": name, **asdict(output)}) + "\n" for name, output in outputs)


def _by_length(group: list[str], encoded: dict[str, list[int]], size: int) -> list[list[str]]:
    """Batches of a group of prompts, the longest first."""
    ordered = sorted(group, key=lambda name: -len(encoded[name]))
    return [ordered[at : at + size] for at in range(0, len(ordered), size)]


def _continuation(
    model: "PreTrainedModel | VllmModel",
    tokenizer: "PreTrainedTokenizerFast",
    prompts: list[list[int]],
    stops: StopStrings,
    ends: set[int],
    max_new_tokens: int,
    beams: int,
) -> Callable[[list[list[int]]], list[list[int]]]:
    """What continues a batch of these prompts: a function from ids to ids, maybe too many."""
    stop_tokens = sorted(stops.tokens | ends)
    if isinstance(model, VllmModel):
        longest = max(map(len, prompts))
        return lambda batch: model.continue_greedily(
            batch,
            stop=stops.strings,
            stop_tokens=stop_tokens,
            max_new_tokens=max_new_tokens,
            longest=longest,
        )
    from transformers import StoppingCriteriaList

    prefix = shared_prefix(model, prompts, max_new_tokens)

    def continue_batch(batch: list[list[int]]) -> list[list[int]]:
        # Beams change places, which a criterion does not follow: their texts are cut afterwards.
        criteria = [stops.criterion(len(batch))] if stops.cross_tokens and beams == 1 else []
        return continue_greedily(
            model,
            batch,
            padding=padding_token(tokenizer),
            stop_tokens=stop_tokens,
            max_new_tokens=max_new_tokens,
            criteria=StoppingCriteriaList(criteria),
            prefix=prefix,
            beams=beams,
        ).tolist()

    return continue_batch


def _cut(
    tokenizer: "PreTrainedTokenizerFast", ids: list[int], stops: StopStrings, ends: set[int]
) -> GeneratedText:
    """Cut a generated row where its text ends; of a token that goes on there keep the beginning."""
    end = next((place for place, token in enumerate(ids) if token in ends), None)
    kept = ids[:end]
    stop = stops.find(kept)
    if stop is None:
        text, steps = decode(tokenizer, [kept])[0], len(kept) + (end is not None)
        return GeneratedText(text.strip(), kept, steps, finished=end is not None)
    text = decode(tokenizer, [kept[: stop.last + 1]])[0]
    kept = kept[: stop.whole + bool(stop.part.strip())]
    begins = [place for place in map(text.find, stops.strings) if place >= 0]
    # Bytes that are no text hide a string behind them in some decoders, and so are special tokens.
    text = text[: min(begins)] if begins else decode(tokenizer, [kept])[0]
    return GeneratedText(text.strip(), kept, stop.last + 1, finished=True)


def _check_context(
    model: "PreTrainedModel | VllmModel", encoded: dict[str, list[int]], max_new_tokens: int
) -> None:
    limit = positions_of(model)  # type: ignore[arg-type]  # both say what it asks for
    name = max(encoded, key=lambda name: len(encoded[name]), default=None)
    if limit is not None and name is not None and len(encoded[name]) + max_new_tokens > limit:
        raise UserError(
            f"prompt '{name}' has {len(encoded[name])} tokens and with max_new_tokens "
            f"{max_new_tokens} exceeds the model's context of {limit}: lower max_new_tokens in "
            "config/tasks.yaml or leave this sentence out of the task's data"
        )


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
