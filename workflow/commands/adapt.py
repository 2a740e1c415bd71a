"""`lexigraft adapt`: a model for a language, from a text and in one command."""

import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from lexigraft.errors import UserError
from workflow.commands.texts import English, Field, Text, place_of


def adapt(
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="The model: a name of the Hugging Face hub, a folder, or a name of "
            "lexigraft's own registry, such as smollm2-135m.",
            show_default=False,
        ),
    ],
    text: Text,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="The folder of all that is made. By default adapted-MODEL-LANGUAGE.",
            show_default=False,
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            help="The language's ISO 639 code, such as te. By default by its script.",
            show_default=False,
        ),
    ] = None,
    new_tokens: Annotated[
        int | None,
        typer.Option(
            "--new-tokens",
            min=1,
            help="New tokens. By default 1,000, or fewer for a small text.",
            show_default=False,
        ),
    ] = None,
    initializer: Annotated[
        str, typer.Option("--initializer", help="How the new embeddings begin.")
    ] = "merge",
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy",
            help="A name of config/strategies.yaml. By default by the hardware; "
            "`none` trains nothing.",
            show_default=False,
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes", min=0.1, help="Time to train. By default 60.", show_default=False
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", min=1, help="Tokens to train on, instead.", show_default=False),
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines",
            help="Train the source on the same text with its own vocabulary (LAPT), "
            "too. That takes longer than the model itself.",
        ),
    ] = False,
    english: English = None,
    text_license: Annotated[
        str | None,
        typer.Option(
            "--text-license", help="Licence of the text, for the model card.", show_default=False
        ),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option("--cores", min=1, help="CPU cores. By default all.", show_default=False),
    ] = None,
    field: Field = "text",
) -> None:
    """Adapt a model to a language: new tokens, their embeddings, training, and a comparison.

    What you do not say is chosen by your model, your text and this machine, and explained. The
    folder then holds the adapted model (`model/`, with a model card), a report (`report.html`) and
    the study that repeats it (`study.yaml`). The same command goes on where it was stopped.

        lexigraft adapt --model HuggingFaceTB/SmolLM2-135M --text telugu.txt --minutes 60

        lexigraft adapt --model ./my-model --text corpus/ --language te --baselines --out telugu-model
    """  # noqa: E501
    from workflow.adaptation.adaptation import Adaptation
    from workflow.adaptation.choices import MINUTES
    from workflow.adaptation.request import Request
    from workflow.adaptation.run import Interrupted

    if minutes is not None and tokens is not None:
        raise UserError("--minutes and --tokens: give one of them, both say how much is trained")
    request = Request(
        model=place_of(model),
        text=[str(place.expanduser().resolve()) for place in text],
        field=field,
        language=language,
        new_tokens=new_tokens,
        initializer=initializer,
        strategy=strategy,
        minutes=MINUTES if minutes is None else minutes,
        tokens=tokens,
        english=str(english.expanduser().resolve()) if english else None,
        text_license=text_license,
    )
    # Warnings of ours on a line each; none of transformers, whose subject is its own code.
    logging.basicConfig(format="  %(message)s", level=logging.WARNING)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        Adaptation(request, out, baselines, cores or len(os.sched_getaffinity(0))).run()
    except (Interrupted, KeyboardInterrupt):
        typer.echo("\nStopped. The same command goes on from here.", err=True)
        raise typer.Exit(130) from None
