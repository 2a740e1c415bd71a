"""`lexigraft adapt`: adapt a model to a language with one command."""

import logging
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from lexigraft.errors import UserError
from workflow.adaptation.adaptation import adapt as run
from workflow.adaptation.choices import MINUTES
from workflow.adaptation.study import Request
from workflow.adaptation.text import MOST_READ
from workflow.commands.texts import English, Field, OptionalText, folder_or_name


def adapt(
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="The model: a name on the Hugging Face hub, a folder, or a name of "
            "`lexigraft list models`, such as smollm2-135m.",
        ),
    ],
    text: OptionalText = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset",
            help="Instead of --text, a data set of the Hugging Face hub and its configuration, "
            "such as HuggingFaceFW/fineweb-2:tel_Telu, or a folder of its layout. It is streamed.",
        ),
    ] = None,
    keep_language: Annotated[
        bool,
        typer.Option(
            "--keep-language", help="Drop lines in another script, and English lines, of the text."
        ),
    ] = False,
    strip_markup: Annotated[
        bool, typer.Option("--strip-markup", help="Remove HTML and Markdown from the text.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The output folder. By default adapted-MODEL-LANGUAGE."),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            help="The language's ISO 639 code, such as te. By default derived from the script.",
        ),
    ] = None,
    new_tokens: Annotated[
        int | None,
        typer.Option(
            "--new-tokens",
            min=1,
            help="Number of new tokens. By default 1,000, or fewer for a small text.",
        ),
    ] = None,
    initializer: Annotated[
        str, typer.Option("--initializer", help="How to initialize the new embeddings.")
    ] = "merge",
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy",
            help="A name in config/strategies.yaml. By default chosen for the hardware; "
            "`none` trains nothing.",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", min=0.1, help="Training time in minutes. By default 60."),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", min=1, help="Tokens to train on, instead of --minutes."),
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines",
            help="Also train the source model with its own vocabulary on the same text (LAPT). "
            "This takes longer than the adapted model.",
        ),
    ] = False,
    english: English = None,
    text_license: Annotated[
        str | None, typer.Option("--text-license", help="Licence of the text, for the model card.")
    ] = None,
    cores: Annotated[
        int | None, typer.Option("--cores", min=1, help="Number of CPU cores. By default all.")
    ] = None,
    field: Field = "text",
) -> None:
    """Adapt a model to a language: new tokens, their embeddings, training, and a comparison.

    Settings that you do not give are chosen for your model, text and machine, and the choices are
    explained. The output folder contains the adapted model (`model/`, with a model card), a report
    (`report.html`) and the study that reproduces it (`study.yaml`). To resume after an
    interruption, run the same command again.

        lexigraft adapt --model HuggingFaceTB/SmolLM2-135M --text telugu.txt --minutes 60

        lexigraft adapt --model smollm2-135m --dataset HuggingFaceFW/fineweb-2:tel_Telu

        lexigraft adapt --model ./my-model --text corpus/ --language te --baselines --out telugu-model
    """  # noqa: E501

    if minutes is not None and tokens is not None:
        raise UserError("--minutes and --tokens: both set the amount of training; give only one")
    if (text is None) == (dataset is None):
        raise UserError("--text, --dataset: give one of them, the text in the language")
    reading: dict[str, Any] = {"only_language": True} if keep_language else {}
    if strip_markup:
        reading["markup"] = "strip"
    if dataset is not None:
        reading["read_sentences"] = MOST_READ
        name, colon, config = dataset.partition(":")
        dataset = f"{folder_or_name(name)}{colon}{config}"
    request = Request(
        model=folder_or_name(model),
        text=[str(path.expanduser().resolve()) for path in text or ()],
        field=field,
        language=language,
        new_tokens=new_tokens,
        initializer=initializer,
        strategy=strategy,
        minutes=MINUTES if minutes is None else minutes,
        tokens=tokens,
        english=str(english.expanduser().resolve()) if english else None,
        text_license=text_license,
        dataset=dataset,
        reading=reading,
    )
    # Show our warnings, one per line, but not those of transformers, which concern its own code.
    logging.basicConfig(format="  %(message)s", level=logging.WARNING)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        run(request, out, baselines, cores or len(os.sched_getaffinity(0)))
    except KeyboardInterrupt:
        typer.echo("\nStopped. Run the same command again to resume.", err=True)
        raise typer.Exit(130) from None
