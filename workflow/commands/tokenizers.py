"""Commands on tokenizers and embeddings without training: expand, graft, inspect."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lexigraft.errors import UserError
from lexigraft.initialization.registry import initializer as new_initializer
from workflow.commands.auxiliaries import UserInputs, auxiliaries, registered
from workflow.commands.tables import show_change, show_inspection, show_rows
from workflow.commands.texts import (
    English,
    Field,
    OptionalText,
    Text,
    clean_sentences,
    folder_or_name,
    model_place,
)

Out = Annotated[Path, typer.Option("--out", help="The output folder, a new or an empty one.")]

_LARGE = 100_000  # with more donor tokens, `omp` with all candidates takes hours


def expand(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model or a tokenizer: a name on the Hugging Face hub, a folder, or a name of "
            "`lexigraft list models`.",
        ),
    ],
    text: Text,
    out: Out,
    new_tokens: Annotated[
        int, typer.Option("--new-tokens", min=1, help="The exact number of tokens to add.")
    ] = 1000,
    merges: Annotated[
        str,
        typer.Option(
            "--merges",
            help="`continued`, `append` or `auxiliary-first` (docs/methods.md#vocabulary).",
        ),
    ] = "continued",
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="Remove as many tokens that neither the text nor --english uses, so that the "
            "model does not grow (docs/vocabulary.md#pruning).",
        ),
    ] = False,
    english: English = None,
    field: Field = "text",
) -> None:
    """Add tokens of a language to a tokenizer, and show what they save.

    Existing tokens keep their ids (with `--prune`, their order), and every new token is reachable.
    The folder loads with transformers alone. `lexigraft graft` then gives a model embeddings for the
    new tokens.

        lexigraft expand HuggingFaceTB/SmolLM2-135M --text telugu.txt --out tokenizer

        lexigraft expand ./my-model --text corpus/ --english english.txt --new-tokens 500 --out tokenizer
    """  # noqa: E501
    from lexigraft.initialization.graft_folder import new_folder
    from lexigraft.source.model import open_tokenizer, tokenizer_folder
    from lexigraft.vocabulary.change import change_tokenizer
    from lexigraft.vocabulary.tokenizer_files import store_vocabulary

    new_folder(out)
    sentences, english_sentences = clean_sentences(text, field), _english(english, field)
    folder = _tokenizer_folder(model)
    source = open_tokenizer(folder)
    settings = {"mode": "expand", "new_tokens": new_tokens, "merges": merges}
    if prune:
        settings |= {"prune": "never-used", "prune_english": bool(english_sentences)}
    tokenizer, description = change_tokenizer(source, sentences, settings, english_sentences)
    store_vocabulary(source, tokenizer, sentences, description, str(out), tokenizer_folder(folder))
    new_ids = {token["id"] for token in description["new_tokens"]}
    show_change(source, tokenizer, new_ids, sentences, english_sentences)
    removed = f", {description['rows_saved']:,} unused ones removed" if prune else ""
    typer.echo(f"{len(tokenizer):,} tokens, {len(new_ids):,} of them new{removed}, in {out}.")
    typer.echo(f"Next: lexigraft graft {model} --tokenizer {out} --out FOLDER")


def graft(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="The model: a name on the Hugging Face hub, a folder, or a name of "
            "`lexigraft list models`.",
        ),
    ],
    out: Out,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer",
            help="The new tokenizer: a folder written by `lexigraft expand`, or any other model's.",
        ),
    ] = None,
    donor: Annotated[
        str | None,
        typer.Option(
            "--donor",
            help="A model whose tokenizer is used, unless --tokenizer is given, and whose "
            "embeddings omp, clp and salt read.",
        ),
    ] = None,
    initializer: Annotated[
        str | None,
        typer.Option(
            "--initializer",
            help="How to initialize the new embeddings: a name in config/initializers.yaml. By "
            "default `merge`; with a donor `omp`, or `omp-500` for more than 100,000 tokens.",
        ),
    ] = None,
    text: OptionalText = None,
    word_vectors: Annotated[
        Path | None,
        typer.Option(
            "--word-vectors",
            help="Word vectors of the language, for wechsel, ofa-…, salt and focus-word.",
        ),
    ] = None,
    english_word_vectors: Annotated[
        Path | None,
        typer.Option("--english-word-vectors", help="English word vectors, for wechsel."),
    ] = None,
    dictionary: Annotated[
        Path | None,
        typer.Option(
            "--dictionary",
            help="English words and their translations, for wechsel, cw2v-dictionary and "
            "dictionary-alignment.",
        ),
    ] = None,
    parallel: Annotated[
        Path | None,
        typer.Option(
            "--parallel",
            help="An English sentence, a tab and its translation per line, for transtokenizers.",
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder", help="A sentence encoder, for tokenadapt: a name on the hub, or a folder."
        ),
    ] = None,
    english: English = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of initializers that draw at random.")
    ] = 0,
    field: Field = "text",
) -> None:
    """Give a model another vocabulary: new rows of its embeddings and head, without training.

    The folder loads with transformers alone and can be trained with any tool. Initializers that need
    a text, word vectors or a donor ask for them.

        lexigraft graft HuggingFaceTB/SmolLM2-135M --tokenizer tokenizer --out grafted

        lexigraft graft ./my-model --tokenizer tokenizer --initializer focus --text telugu.txt --out grafted

        lexigraft graft ./my-model --donor ./telugu-model --out grafted
    """  # noqa: E501
    from lexigraft.initialization.graft_folder import (
        find_model,
        graft_folder,
        new_folder,
        target_tokenizer,
    )
    from lexigraft.source.hub import TOKENIZER, WANTED, resolve_place

    new_folder(out)
    if not sys.stderr.isatty():
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()
    if tokenizer is None and donor is None:
        raise UserError("--tokenizer: specify the new tokenizer, or a --donor to take it from")
    name = initializer or ("omp" if donor else "merge")
    entry, vectors = registered(name)
    sentences = clean_sentences(text, field) if text else []
    english_sentences = _english(english, field)
    donor_folder = encoder_folder = None
    if donor:
        reads_embeddings = any(kind.kind == "plm" for kind in vectors.values())
        needed = WANTED if reads_embeddings else TOKENIZER
        donor_folder = resolve_place(model_place(donor), wanted=needed)[0]
    place = model_place(model)
    source = find_model(place).tokenizer()
    new_tokenizer = model_place(tokenizer) if tokenizer else str(donor_folder)
    target, _ = target_tokenizer(new_tokenizer, source)
    if initializer is None and donor and len(target) > _LARGE:
        name, (entry, vectors) = "omp-500", registered("omp-500")
    if encoder:
        encoder_folder = resolve_place(folder_or_name(encoder))[0]
    files = (word_vectors, english_word_vectors, dictionary, parallel, donor_folder, encoder_folder)
    inputs = UserInputs(sentences, *files)
    fitted = graft_folder(
        place,
        new_tokenizer,
        new_initializer(entry.method, **entry.options),
        out,
        corpus=sentences or None,
        auxiliary=auxiliaries(name, entry, vectors, source, target, inputs),
        seed=seed,
    )
    new_ids = set(fitted.new_ids.tolist())
    show_change(source, target, new_ids, sentences, english_sentences)
    show_rows(fitted)
    typer.echo(
        f"{len(target):,} tokens, {len(new_ids):,} of them new, initialized with {name}, in {out}."
    )
    typer.echo(f'To load it: transformers.AutoModelForCausalLM.from_pretrained("{out}")')


def inspect(
    tokenizer: Annotated[
        str,
        typer.Argument(
            metavar="TOKENIZER",
            help="A tokenizer or a model: a name on the Hugging Face hub, a folder, or a name of "
            "`lexigraft list models`.",
        ),
    ],
    text: Text,
    english: English = None,
    sizes: Annotated[
        str, typer.Option("--sizes", help="Numbers of new tokens on the curve.")
    ] = "250,500,1000,2000,4000",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    field: Field = "text",
) -> None:
    """Show how a tokenizer splits your text, and what new tokens would save, before any training.

    The curve is measured on a tenth of the sentences, with tokens learned from the others.

        lexigraft inspect HuggingFaceTB/SmolLM2-135M --text telugu.txt --english english.txt
    """
    from lexigraft.evaluation.inspection import inspect_tokenizer
    from lexigraft.source.model import open_tokenizer

    try:
        numbers = [int(size) for size in sizes.split(",")]
    except ValueError:
        raise UserError(
            f"--sizes: '{sizes}' is not a list of numbers such as 250,500,1000"
        ) from None
    if min(numbers) < 1:
        raise UserError(f"--sizes: {min(numbers)} is not a number of new tokens (1, 2, 3 …)")
    sentences, english_sentences = clean_sentences(text, field), _english(english, field)
    source = open_tokenizer(_tokenizer_folder(tokenizer))
    inspection = inspect_tokenizer(source, sentences, english_sentences, numbers)
    if as_json:
        print(json.dumps({"sentences": len(sentences), **asdict(inspection)}, indent=2))
    else:
        show_inspection(inspection, len(sentences))


def _tokenizer_folder(model: str) -> Path:
    from lexigraft.source.hub import TOKENIZER, resolve_place

    return resolve_place(model_place(model), wanted=TOKENIZER)[0]


def _english(path: Path | None, field: str) -> list[str]:
    return clean_sentences([path], field, "--english") if path else []
