"""`lexigraft init`: write a study to start from, and a profile for Slurm."""

import json
import shutil
from functools import partial
from pathlib import Path
from string import Template
from typing import Annotated, Any

import typer

from lexigraft.errors import UserError
from lexigraft.installation import PIPELINE
from lexigraft.yaml_files import parse_yaml
from workflow.adaptation.text import LEAST_HELDOUT, heldout_sentences, measure_text
from workflow.commands.studies import check_installed
from workflow.commands.texts import as_name, check_code, check_hub_name, source_name
from workflow.config.checks import known_positions
from workflow.config.registries import load_registries, read_entries

_TEMPLATE = Path(__file__).with_name("new-study.yaml")
_TRAINED, _STRATEGY = 500, "2x2ls-clm-512"
_PROFILE = "profiles/slurm/config.yaml"
# As JSON, which is YAML: unquoted, `no`, the code of Norwegian, would be read as false.
_quoted = partial(json.dumps, ensure_ascii=False)


def init(
    file: Annotated[Path, typer.Argument(metavar="STUDY.yaml", help="The file to write.")],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="The model to adapt: a name on the Hugging Face hub, a folder, or a name of "
            "`lexigraft list models`.",
        ),
    ] = "smollm2-135m",
    language: Annotated[
        str, typer.Option("--language", help="The language's ISO 639 code, such as te.")
    ] = "te",
    text: Annotated[
        str | None,
        typer.Option(
            "--text",
            help="Text in the language, one sentence per line. By default data/CODE.txt, which you "
            "provide.",
        ),
    ] = None,
    slurm: Annotated[
        bool, typer.Option("--slurm", help="Also write profiles/slurm, in which to set partitions.")
    ] = False,
) -> None:
    """Write a commented study to start from: your text, a model and a first comparison.

    It runs without changes once the text exists.

        lexigraft init my-study.yaml --language te --text data/telugu.txt

        lexigraft run my-study.yaml
    """
    check_installed()
    if file.exists():
        raise UserError(f"{file}: already exists; choose another name, or delete it first")
    profile = Path(_PROFILE)
    if slurm and profile.exists():
        raise UserError(f"{profile}: already exists; delete it first, or omit --slurm")
    check_code(language)
    text = text or f"data/{language}.txt"
    content = new_study(str(file), model, language, text)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, encoding="utf-8")
    written = [str(file)]
    if slurm:
        profile.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PIPELINE / _PROFILE, profile)
        written.append(str(profile))
    typer.echo(f"Wrote {' and '.join(written)}.")
    if not Path(text).exists():
        typer.echo(f"Put your text into {text}, one sentence per line, or set its path in {file}.")
    if slurm:
        typer.echo(f"Set your partitions in {profile}, then run with --profile profiles/slurm")
    typer.echo(f"Next: lexigraft plan {file}")


def new_study(file: str, model: str, code: str, text: str) -> str:
    """The YAML of a study, which is valid even if its text does not exist yet.

    Raises
    ------
    UserError
        The text exists and has too few sentences, or is not UTF-8.
    """
    registries = load_registries()
    known = (entry for entry in registries["languages"].values() if entry.get("code") == code)
    entry = next(known, {"name": code})
    script, heldout = entry.get("script", "Latn"), 100
    reading = ""
    if Path(text).is_file():
        facts = measure_text({"loader": "text", "paths": [text]}, text, 2 * LEAST_HELDOUT, code)
        reading = "".join(f"\n    {key}: {_quoted(value)}" for key, value in facts.reading.items())
        script = facts.script if facts.share else script
        heldout = heldout_sentences(facts.sentences)
    source, sources = _source(model, registries["sources"])
    study = as_name(Path(file).stem) or "study"
    own = parse_yaml(sources, file).get("sources", {})
    positions = known_positions(read_entries("sources", own, registries["sources"])[0][source])
    phase, limit = registries["strategies"][_STRATEGY]["phases"][0], ""
    if positions and positions < phase["length"]:
        phase = phase | {"length": positions}
        limit = f"    phases: [{json.dumps(phase)}] # the model has {positions} positions\n"
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        schema=(PIPELINE / "config/schemas/study.json").as_posix(),
        documentation=PIPELINE / "config/README.md",
        file=file,
        study=_quoted(study),
        title=_quoted(f"{entry['name']} for {source}"),
        name=_quoted(entry["name"]),
        source=_quoted(source),
        sources=sources,
        language=f"my-{code}",
        code=_quoted(code),
        script=script,
        text=_quoted(text),
        data=code,
        heldout=heldout,
        reading=reading,
        sentences=_TRAINED,
        strategy=_STRATEGY,
        length=phase["length"],
        phases=limit,
        vocabulary="expand-500",
    )


def _source(model: str, known: dict[str, Any]) -> tuple[str, str]:
    """The name of a source model, and the part of a study that defines its location."""
    if model in known:
        return (
            model,
            f"# `{model}` is an entry of lexigraft's registry; for another model, use --model.\n",
        )
    is_folder = Path(model).expanduser().is_dir() or model.startswith(("/", ".", "~"))
    if not is_folder:
        check_hub_name(model, known)
    name = source_name(model, known)
    location = f"hub: {model} # to pin it, add revision: a commit"
    if is_folder:
        location = f"folder: {_quoted(model)}"
    return name, f"sources:\n  {_quoted(name)}:\n    {location}\n"
