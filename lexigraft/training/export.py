"""Writes a cell as a plain Hugging Face folder that loads without lexigraft."""

import gc
import json
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast

from lexigraft.artifacts.atomic import atomic_folder
from lexigraft.artifacts.cards import INPUTS, write_card
from lexigraft.artifacts.completion import card_checksum
from lexigraft.corpus.lines import corpus_sentences
from lexigraft.errors import UserError
from lexigraft.hardware import device
from lexigraft.initialization.storage import load_initialization
from lexigraft.model_card import (
    INSTRUCT,
    README,
    ModelFacts,
    describe_strategy,
    license_of,
    method_references,
    model_card,
    strategy_references,
    template_limits,
)
from lexigraft.source.model import (
    is_masked,
    load_model,
    open_source,
    open_tokenizer,
    tokenizer_folder,
)
from lexigraft.source.saving import save_model, write_tokenizer
from lexigraft.training.llama_cpp import folder_to_gguf
from lexigraft.training.settings import read_strategy
from lexigraft.training.store import LORA, load_cell, matrix_names, read_card, reference

# The address of a file in a data set of the Hugging Face Hub.
_ADDRESS = re.compile(r"hf://datasets/([^/@]+/[^/@]+)")
GGUF, DELTA = "model.gguf", "delta.safetensors"
# Files that `lexigraft.job.run` writes into an output folder before the work begins.
JOB_FILES = ("job.json", ".lock")


def export(
    cell_folder: str | Path, out: str | Path, *, gguf: bool = False, delta: bool = False
) -> Path:
    """Write the model and tokenizer of a cell to `out`, adapters merged, and return `out`.

    `transformers.AutoModelForCausalLM.from_pretrained(out)`, or `AutoModelForMaskedLM` for an
    encoder, then loads the same model as `load_cell`. A model card, README.md, describes the model
    and names the token that its texts begin with.

    `gguf` adds `model.gguf`, in float16, for llama.cpp. `delta` writes only what the source model
    does not have: `delta.safetensors` with changed rows and tensors, `adapter/` if there is one,
    configuration and tokenizer. The model card then has the code that rebuilds the model.

    `cell_folder` is a cell under `results/training/`; `out` a new folder, or one that an earlier
    export wrote, which is replaced.

    Raises
    ------
    UserError
        `out` has other files, the cell is incomplete or damaged, llama.cpp's converter is not
        installed, or the GGUF file would tokenize texts differently.

    Examples
    --------
    With `cell` such as `"results/training/my-model/te/expand-500/align/2x2ls-clm-512/seed-0"`:

    >>> import lexigraft
    >>> from transformers import AutoModelForCausalLM
    >>> out = lexigraft.export(cell, "adapted-model")
    >>> model = AutoModelForCausalLM.from_pretrained(out)
    >>> (out / "README.md").exists()  # its model card
    True
    """
    cell_folder, out = Path(cell_folder), Path(out)
    check_replaceable(out)
    card = read_card(cell_folder)
    with atomic_folder(out) as folder:
        write = write_delta if delta else write_merged
        files, tokenizer, masked = write(cell_folder, folder)
        if gguf:
            heldout = corpus_sentences(reference(cell_folder, card, "corpus"), "heldout", 100)
            folder_to_gguf(folder, folder / GGUF, tokenizer, heldout)
            files = [*files, GGUF]
        text = model_card(cell_facts(cell_folder), tokenizer, masked, delta)
        (folder / README).write_text(text, encoding="utf-8")
        write_card(folder, card["job"], [*files, README], exported_cell=card["job"]["cell"])
        for name in JOB_FILES:
            if (out / name).exists():
                (out / name).rename(folder / name)
    return out


def write_merged(
    cell_folder: Path, folder: Path
) -> tuple[list[str], PreTrainedTokenizerFast, bool]:
    """Write the model and tokenizer of a cell to a folder, adapters merged, without any card.

    Returns the names of the files, the tokenizer, and whether the model is an encoder.
    """
    try:  # on a GPU, where merging is faster
        model, tokenizer = load_cell(cell_folder, device=device())
    except torch.OutOfMemoryError:
        model, tokenizer = load_cell(cell_folder)
    source_of_tokenizer = tokenizer_folder(
        reference(cell_folder, read_card(cell_folder), "tokenizer")
    )
    files, masked = save_model(model, tokenizer, folder, source_of_tokenizer), is_masked(model)
    # vLLM, which may read the folder next, reserves a share of the total memory of a GPU.
    del model
    gc.collect()
    torch.cuda.empty_cache()
    return files, tokenizer, masked


def write_delta(cell_folder: Path, folder: Path) -> tuple[list[str], PreTrainedTokenizerFast, bool]:
    """Like `write_merged`, but write only what the source does not have (`DELTA`, `adapter/`).

    A tensor of `DELTA` has its parameter's name. With `NAME.rows`, int64 [n_target], it has only
    the changed rows, and row i of the parameter is row `NAME.rows[i]` of the source's rows followed
    by the changed rows.
    """
    card = read_card(cell_folder)
    model, tokenizer = load_cell(cell_folder, merge=False)
    source = open_source(reference(cell_folder, card, "source")).folder
    source_model = load_model(source, model.dtype)
    source_parameters = dict(source_model.named_parameters(remove_duplicate=False))
    source_of = torch.arange(source_model.config.get_text_config().vocab_size)
    if card["references"]["initialization"]:
        initialization = load_initialization(reference(cell_folder, card, "initialization"))
        source_of = torch.from_numpy(initialization.source_of)
    matrices, buffers = matrix_names(model), dict(model.named_buffers())
    delta = {name: tensor for name, tensor in model.state_dict().items() if name in buffers}
    for name, parameter in model.named_parameters():
        source_rows, rows = source_parameters[name].detach(), parameter.detach()
        if name in matrices:
            same = (source_rows[source_of.clamp(min=0)] == rows).reshape(len(rows), -1).all(1)
            is_changed = (source_of < 0) | ~same
            positions = len(source_rows) + is_changed.cumsum(0) - 1
            delta[name] = rows[is_changed]
            delta[f"{name}.rows"] = torch.where(is_changed, positions, source_of)
        elif not torch.equal(source_rows, rows):
            delta[name] = rows
    save_file({name: tensor.contiguous() for name, tensor in delta.items()}, folder / DELTA)
    model.config.use_cache = True
    model.config.save_pretrained(folder)
    if model.can_generate():
        model.generation_config.save_pretrained(folder)
    write_tokenizer(tokenizer, folder)
    if (cell_folder / "adapter").is_dir():
        shutil.copytree(cell_folder / "adapter", folder / "adapter")
    files = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    return files, tokenizer, is_masked(model)


def cell_facts(cell_folder: str | Path) -> ModelFacts:
    """Collect the facts for a cell's model card from its card and those of its inputs."""
    folder = Path(cell_folder)
    card = read_card(folder)
    strategy = read_strategy(card["job"]["settings"]).model_dump()
    cards = _cards(folder, card)
    source = open_source(reference(folder, card, "source"))
    pointer = json.loads((reference(folder, card, "source") / "source.json").read_text("utf-8"))
    entry, text = cards["source"].get("job", {}), cards["corpus"].get("job", {})
    source_settings, language = entry.get("settings", {}), text.get("settings", {})
    # The name of a model from a GGUF file of a package.
    file = source_settings.get("file") or ""
    is_gguf = "package" in source_settings and file.endswith(".gguf")
    packaged = Path(file).stem if is_gguf else ""
    method, references = [], []
    if described := _vocabulary(folder, card, cards["tokenizer"]):
        method.append(described)
    if fitted := cards["initialization"].get("job", {}).get("settings"):
        options = ", ".join(f"{name} {value}" for name, value in fitted["options"].items())
        details = f" ({options})" if options else ""
        method.append(f"New rows of embeddings and head: `{fitted['method']}`{details}.")
        references = method_references(fitted["method"])
    method.append(describe_strategy(strategy, card))
    method.append(f"Seed {card['job']['cell']['seed']} of the study.")
    tokenizers = [open_tokenizer(reference(folder, card, name)) for name in ("tokenizer", "source")]
    return ModelFacts(
        base=packaged or pointer.get("repo") or source.folder.name,
        language=language.get("name", card["job"]["cell"]["language"]),
        code=language.get("code", ""),
        license=source_settings.get("license") or license_of(source.folder, pointer.get("repo")),
        text_license=language.get("license", ""),
        revision=source.revision,
        method=method,
        text=[
            f"{name}: {size['sentences']:,} sentences, {size['bytes']:,} bytes."
            for part, name in (("train", "Training text"), ("heldout", "Held-out text"))
            if (size := cards["corpus"].get("sizes", {}).get(part)) and size["sentences"]
        ],
        data_sets=_data_sets(folder, card, cards["corpus"]),
        numbers={
            name: {
                column: f"{card[f'{key}_{when}']:.3f}"
                for column, when in (("untrained", "before"), ("this model", "after"))
                if card.get(f"{key}_{when}") is not None
            }
            for name, key in (("Bits per byte", "heldout"), ("Bits per byte of English", "english"))
            if card.get(f"{key}_after") is not None
        },
        measured_on=f"Bits per byte of up to {strategy['curve']['sentences']} sentences that were "
        "held out of training, each scored separately (lower is better), before and after "
        "training.",
        limits=["A short continued training of a pretrained model; its texts were not checked by "
                "anybody.",
                INSTRUCT if tokenizers[0].chat_template else "Not tuned to follow instructions.",
                *template_limits(*tokenizers)],
        references=[*references, *strategy_references(strategy)],
        adapter=LORA[0] in card["files"],
    )  # fmt: skip


def _cards(folder: Path, card: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The cards of a cell's references, by name; empty where there is none or it has changed."""
    cards: dict[str, dict[str, Any]] = {}
    for name, path in card["references"].items():
        cards[name] = {}
        checksum = card[INPUTS].get(path)
        if path and checksum in (None, card_checksum(folder / path)):
            with suppress(OSError, ValueError):
                cards[name] = json.loads((folder / path / "card.json").read_text("utf-8"))
    return {"corpus": {}, "initialization": {}} | cards


def _vocabulary(folder: Path, card: dict[str, Any], card_of_tokenizer: dict[str, Any]) -> str:
    """How the vocabulary was changed; empty if it is the source's."""
    file = reference(folder, card, "tokenizer") / "vocabulary.json"
    if not file.is_file():
        return ""
    described = json.loads(file.read_text("utf-8"))
    new, size = len(described["new_tokens"]), described["size"]
    source_size, removed = described["source_size"], described.get("rows_saved", 0)
    change = {
        "expand": f"{new:,} tokens added to the source's {source_size:,}",
        "prune": f"A vocabulary of {size:,} of the source's {source_size:,} tokens",
        "replace": f"A vocabulary of {size:,} tokens, {size - new:,} of them the source's",
    }[described["mode"]]
    if removed:
        change += f"; {removed:,} that the text does not use removed"
    if "train_fertility_after" not in card_of_tokenizer:
        return f"{change}."
    before, after = (card_of_tokenizer[f"train_fertility_{when}"] for when in ("before", "after"))
    return (
        f"{change}; tokens per word of the training text: {before:.2f} before, {after:.2f} after."
    )


def _data_sets(folder: Path, card: dict[str, Any], corpus: dict[str, Any]) -> list[str]:
    """Names of the training text's data sets on the Hub; for a group, those of its members."""
    if not corpus:
        return []
    cards = [corpus]
    for member in sorted(corpus["job"]["settings"].get("group", {}).get("members", ())):
        path = reference(folder, card, "corpus").parent / member / "card.json"
        with suppress(OSError, ValueError):
            cards.append(json.loads(path.read_text("utf-8")))
    names = []
    for corpus_card in cards:
        text = corpus_card.get("job", {}).get("settings", {}).get("text") or {}
        if text.get("loader") == "datasets":
            # A corpus of the registry is read from the addresses of its files.
            files = text.get("data_files") or []
            files = [files] if isinstance(files, str) else files
            named = [address[1] for file in files if (address := _ADDRESS.match(file))]
            names += named or ([text["name"]] if not files else [])
    return list(dict.fromkeys(names))


def check_replaceable(out: Path) -> None:
    """Raise a UserError unless a folder is new, an earlier export, or has only a job's files."""
    if not out.exists():
        return
    names = {path.name for path in out.iterdir()} if out.is_dir() else {out.name}
    try:
        is_export = "exported_cell" in json.loads((out / "card.json").read_text("utf-8"))
    except (OSError, ValueError):
        is_export = False
    if not is_export and not names <= set(JOB_FILES):
        raise UserError(
            f"{out}: contains files that were not written by an export; choose another folder"
        )
