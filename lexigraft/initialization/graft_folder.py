"""Write a model with another vocabulary to a folder, for training with other tools."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast

from lexigraft.artifacts.atomic import atomic_folder
from lexigraft.errors import UserError
from lexigraft.initialization.fit import fit_to_model
from lexigraft.initialization.graft import graft
from lexigraft.initialization.interface import Initializer
from lexigraft.model_card import (
    README,
    ModelFacts,
    license_of,
    method_references,
    model_card,
    template_limits,
)
from lexigraft.source.hub import TOKENIZER, resolve_place
from lexigraft.source.model import (
    SourceModel,
    is_masked,
    load_config,
    load_model,
    model_kind,
    open_source,
    tokenizer_folder,
)
from lexigraft.source.preparation import check_source
from lexigraft.source.saving import save_model
from lexigraft.source.tokenizer import load_tokenizer
from lexigraft.vocabulary.expand import new_token_ids
from lexigraft.vocabulary.tokenizer_settings import take_tokenizer, treats_texts_alike


def graft_folder(
    model: str | Path,
    tokenizer: str | Path | PreTrainedTokenizerFast,
    initializer: Initializer,
    out: str | Path,
    *,
    corpus: Iterable[str] | None = None,
    auxiliary: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Initializer:
    """Write a source model with another tokenizer's vocabulary, and a model card, to a folder.

    `transformers` loads the folder without lexigraft. Weights keep their dtype. Returns the fitted
    initializer. A UserError is raised if `out` is not empty, or the model or the tokenizer cannot
    be used.

    Parameters
    ----------
    model
        A causal or masked language model: a name on the hub, or a folder, which begins with `/`,
        `.` or `~`; or a source that a study has prepared, `./results/source/<name>`.
    tokenizer
        The target tokenizer, or its name on the hub or its folder. Another model's tokenizer is
        changed to add special tokens as this model's tokenizer does (`take_tokenizer`).
    initializer
        Not fitted yet. Inputs that it reads from the model itself need not be passed.
    out
        A new or empty folder.
    corpus, auxiliary, seed
        See `Initializer.fit`.

    Examples
    --------
    >>> import lexigraft
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> source = lexigraft.train_tokenizer(["the rice and the river"] * 5, "byte-level-bpe", 265)
    >>> config = LlamaConfig(vocab_size=265, hidden_size=8, intermediate_size=8,
    ...                      num_hidden_layers=1, num_attention_heads=1)
    >>> _ = source.save_pretrained("my-model")
    >>> LlamaForCausalLM(config).save_pretrained("my-model")
    >>> swahili = ["mto na mvua", "mto na maji"] * 5
    >>> target = lexigraft.expand_tokenizer(source, swahili, new_tokens=8)
    >>> merge = lexigraft.initializer("merge")
    >>> fitted = lexigraft.graft_folder("./my-model", target, merge, "grafted")
    >>> fitted.explain("mto")
    "'mto' = 0.5 'o' + 0.25 'm' + 0.25 't'"
    >>> LlamaForCausalLM.from_pretrained("grafted").config.vocab_size
    273
    """
    out = new_folder(out)
    source_model = find_model(model)
    source_folder, source_tokenizer = source_model.folder, source_model.tokenizer()
    check_source(source_folder, model_kind(load_config(source_folder)) or "causal")
    target, files = target_tokenizer(tokenizer, source_tokenizer)
    fitted = fit_to_model(
        initializer,
        source_folder,
        source_tokenizer,
        target,
        corpus=corpus,
        auxiliary=auxiliary or {},
        seed=seed,
    )
    grafted = graft(load_model(source_folder, "auto"), target, fitted)
    n_fallbacks, revision = len(fitted.fallbacks_), source_model.revision
    fallbacks = f", of which {n_fallbacks:,} are not covered by it and fell back"
    facts = ModelFacts(
        base=source_model.name if revision else source_folder.name,
        license=license_of(source_folder, source_model.name if revision else None),
        revision=revision,
        method=[
            f"A vocabulary of {len(target):,} tokens, {len(fitted.new_ids):,} of them new.",
            f"New rows of embeddings and head: `{fitted.name}`{fallbacks if n_fallbacks else ''}.",
            "Not trained after its vocabulary was changed.",
        ],
        limits=[
            "Without further training it is worse than its source model on most texts.",
            *template_limits(target, fitted.pair_.source_tokenizer),
        ],
        references=method_references(fitted.name),
    )
    with atomic_folder(out) as folder:
        save_model(grafted, target, folder, files)
        text = model_card(facts, target, is_masked(grafted))
        (folder / README).write_text(text, encoding="utf-8")
    return fitted


def find_model(model: str | Path) -> SourceModel:
    """Find a model by its name on the hub or its folder, which begins with `/`, `.` or `~`."""
    folder, revision = resolve_place(str(model))
    if (folder / "source.json").is_file():
        return open_source(folder)
    return SourceModel(folder, str(model).partition("@")[0], revision)


def target_tokenizer(
    tokenizer: str | Path | PreTrainedTokenizerFast, source_tokenizer: PreTrainedTokenizerFast
) -> tuple[PreTrainedTokenizerFast, Path | None]:
    """Adapt a target tokenizer to a model: a tokenizer, its folder, or its name on the hub.

    Also returns the folder from which it was loaded if it is used unchanged, otherwise None.
    """
    folder = None
    if isinstance(tokenizer, str | Path):
        path, _ = resolve_place(str(tokenizer), wanted=TOKENIZER)
        folder = tokenizer_folder(path)
        tokenizer = load_tokenizer(folder)
    try:
        new_token_ids(source_tokenizer, tokenizer)
    except UserError:  # not an expansion, but a pruned tokenizer is still the model's
        if not treats_texts_alike(tokenizer, source_tokenizer):
            return take_tokenizer(tokenizer, source_tokenizer), None
    return tokenizer, folder


def new_folder(path: str | Path) -> Path:
    """Path of a folder to write; raises a UserError unless it is new or empty."""
    folder = Path(path)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"{folder}: already exists and is not empty; choose another folder")
    return folder
