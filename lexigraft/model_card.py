"""The model card of an adapted model: the README.md of its Hugging Face folder.

Everything in it comes from the cards of the stages that built the model: the source model, the
text, the method, the numbers, and the token that texts must begin with.
"""

import inspect
import json
import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from huggingface_hub import model_info

import lexigraft
from lexigraft.artifacts.cards import commit_of_code, versions
from lexigraft.errors import UserError
from lexigraft.initialization.registry import initializer_class
from lexigraft.source.document_start import document_start, start_ids
from lexigraft.training.settings import MATRIX_PARTS
from lexigraft.vocabulary.tokenizer_settings import missing_template_tokens
from lexigraft.yaml_files import parse_yaml

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

README = "README.md"
FOLDER = "FOLDER"  # placeholder for the path of the model in the usage example
# Sections and equations, which are left out: a reader of the card needs only the paper.
_SECTIONS = re.compile(r", (sections?|equations?|appendix) [^\"]*$")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_SELF = "lexigraft, vocabulary adaptation of pretrained language models; and the methods' papers:"
_WHOLE = "It is a plain Hugging Face model: transformers loads it without lexigraft."
_DELTA = (
    "This folder has only what differs from that model, and the tokenizer. The code below rebuilds "
    "the model from both, without lexigraft."
)
# A model with a chat template was tuned on conversations, which continued training does not see.
INSTRUCT = (
    "The source model was tuned for conversations. This training used plain text only, so the "
    "model may follow instructions less well than its source; that was not measured."
)
# Papers of what strategies train; the papers of initializers are in their docstrings.
_LORA = 'Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models".'
_LAYERS = (
    'Yamaguchi, Villavicencio and Aletras, "How Can We Effectively Expand the Vocabulary of LLMs '
    'with 0.01GB of Target Language Text?".'
)
_VOCADT = (
    'Han et al. 2025 (VocADT), "Adapters for Altering LLM Vocabularies: What Languages Benefit the '
    'Most?".'
)


@dataclass(frozen=True)
class ModelFacts:
    """The content of a model card; what is not known is empty.

    `base` is a hub name or the name of a folder; `method` and `text` are the lines of their
    sections; `numbers` are rows of a table, each a mapping of column -> number, below
    `measured_on`.
    """

    base: str
    language: str = ""
    code: str = ""
    license: str = ""
    text_license: str = ""
    revision: str | None = None
    method: Sequence[str] = ()
    text: Sequence[str] = ()
    data_sets: Sequence[str] = ()
    numbers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    measured_on: str = ""
    limits: Sequence[str] = ()
    references: Sequence[str] = ()
    adapter: bool = False


def model_card(
    facts: ModelFacts, tokenizer: "PreTrainedTokenizerFast", masked: bool, delta: bool = False
) -> str:
    """The text of a README.md, with YAML front matter for the Hugging Face hub.

    `masked` is True for an encoder, which predicts masked tokens, and `delta` for a folder that has
    only what differs from the base model.
    """
    change = f"adapted to {facts.language}" if facts.language else "with another vocabulary"
    title = f"{facts.base.rstrip('/').rpartition('/')[2]} {change}"
    revision = f" at revision {facts.revision}" if facts.revision else ""
    installed, commit = versions(), commit_of_code()
    made_with = [f"commit {commit}"] if commit else []
    made_with += [
        f"{name} {installed[name]}" for name in ("torch", "transformers") if name in installed
    ]
    base = f"is under {facts.license}" if facts.license else "has an unknown licence"
    licences = f"The source model {base}, which also applies to this model."
    if facts.text:
        text = f"is {facts.text_license}" if facts.text_license else "was not stated"
        licences += f" The licence of the text {text}."
    made = f"Made with lexigraft {lexigraft.__version__} ({', '.join(made_with)})."
    parts = [
        f"---\n{_as_front_matter(facts, masked)}---",
        f"# {title}",
        f"`{facts.base}`{revision}, {change} by lexigraft. {_DELTA if delta else _WHOLE}",
        _use(facts, tokenizer, masked, delta),
        _section("Method", [*facts.method, made]),
        _section("Text", facts.text),
        _numbers(facts),
        _section("Limits", [*facts.limits, licences]),
        _section("Citation", [_SELF, *dict.fromkeys(facts.references)]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def method_references(method: str) -> list[str]:
    """The papers of an initializer, from the references in its class docstring."""
    text = inspect.getdoc(initializer_class(method)) or ""
    _, _, listed = text.partition("References\n----------\n")
    papers = re.split(r"^\.\. \[\d+\] ", listed, flags=re.M)[1:]
    return [_SECTIONS.sub(".", " ".join(paper.split())) for paper in papers]


def strategy_references(strategy: Mapping[str, Any]) -> list[str]:
    """The papers behind the parts that a strategy, given as plain data, trains."""
    trained = [part for phase in strategy["phases"] for part in phase["trainable"]]
    mtp = any(phase.get("objective") == "mtp" for phase in strategy["phases"])
    layers = any(isinstance(part, Mapping) for part in trained)
    papers = {_LORA: "lora" in trained, _LAYERS: mtp or layers, _VOCADT: "adapter" in trained}
    return [paper for paper, used in papers.items() if used]


def describe_strategy(strategy: Mapping[str, Any], card: Mapping[str, Any]) -> str:
    """Describe the training of a cell in one line, from its strategy and the counts of its card."""
    if not strategy["phases"]:
        return "Not trained after its vocabulary was changed."
    phases, batches = [], []
    for phase in strategy["phases"]:
        batches.append(phase.get("batch_sequences", strategy["batch_sequences"]))
        parts = ", ".join(
            part if isinstance(part, str) else f"layers {list(part['layers'])}"
            for part in phase["trainable"]
        )
        values = {"objective": "clm", **strategy, **phase}
        rate = f"{values['learning_rate']:g}"
        ratio = values.get("embedding_learning_rate")
        if ratio and any(part in MATRIX_PARTS for part in phase["trainable"]):
            rate += f", of embeddings and head {values['learning_rate'] * ratio:g}"
        phases.append(
            f"{parts} ({values['objective']}, sequences of {phase['length']} tokens, AdamW with "
            f"learning rate {rate})"
        )
    together = ", then ".join(map(str, dict.fromkeys(batches)))
    sequences = "sequence" if batches[-1] == 1 else "sequences"
    begin = (
        f"Trained after the strategy `{after}`" if (after := strategy.get("after")) else "Trained"
    )
    return (
        f"{begin}: {'; then '.join(phases)}. {card['tokens']:,} tokens in {card['steps']:,} steps "
        f"of {together} {sequences}, "
        f"{card['trained_parameters']:,} of {card['total_parameters']:,} parameters."
    )


def template_limits(
    tokenizer: "PreTrainedTokenizerFast", source_tokenizer: "PreTrainedTokenizerFast"
) -> list[str]:
    """A line for the limits section, also logged, if the chat template names missing tokens."""
    if not (missing := missing_template_tokens(tokenizer, source_tokenizer)):
        return []
    said = f"The chat template names {', '.join(missing)}, which the vocabulary does not have."
    logger.warning("%s", said)
    return [said]


def license_of(folder: str | Path, repository: str | None = None) -> str:
    """The licence in the card of a model: of its folder, else of its repository on the hub.

    Empty if neither is known.
    """
    matter: Any = front_matter(folder)
    if "license" not in matter and repository:
        # The model is complete: on any error of hub or network, its licence is just unknown.
        with suppress(Exception):
            matter = model_info(repository, timeout=10).card_data or {}
    license = matter.get("license")
    return license if isinstance(license, str) else ""


def front_matter(folder: str | Path) -> dict[str, Any]:
    """The front matter of a model folder's README.md; empty if it is missing or not YAML."""
    try:
        found = _FRONT_MATTER.match((Path(folder) / README).read_text(encoding="utf-8"))
        matter = parse_yaml(found[1], README) if found else {}
    except (OSError, ValueError, UserError):
        return {}
    return matter if isinstance(matter, dict) else {}


def _as_front_matter(facts: ModelFacts, masked: bool) -> str:
    matter: dict[str, Any] = {
        "library_name": "transformers",
        "pipeline_tag": "fill-mask" if masked else "text-generation",
        "tags": ["lexigraft", "vocabulary-adaptation"],
    }
    if _HUB_NAME.fullmatch(facts.base):
        matter |= {"base_model": facts.base, "base_model_relation": "finetune"}
    if facts.code and facts.code != "und":
        matter["language"] = [facts.code]
    if facts.license:
        matter["license"] = facts.license
    if facts.data_sets:
        matter["datasets"] = list(facts.data_sets)
    return yaml.safe_dump(matter, allow_unicode=True, sort_keys=True)


def _use(facts: ModelFacts, tokenizer: "PreTrainedTokenizerFast", masked: bool, delta: bool) -> str:
    auto_class = f"AutoModelFor{'MaskedLM' if masked else 'CausalLM'}"
    lines = [
        f"from transformers import {auto_class}, AutoTokenizer",
        "",
        f'tokenizer = AutoTokenizer.from_pretrained("{FOLDER}")',
        f'model = {auto_class}.from_pretrained("{FOLDER}")',
    ]
    if delta:
        revision = f'revision="{facts.revision}", ' if facts.revision else ""
        lines = [
            "import torch",
            "from peft import PeftModel",
            "from safetensors.torch import load_file",
            f"from transformers import AutoConfig, {auto_class}, AutoTokenizer",
            "from transformers.utils import cached_file",
            "",
            f'tokenizer = AutoTokenizer.from_pretrained("{FOLDER}")',
            f'config = AutoConfig.from_pretrained("{FOLDER}")',
            f'base = {auto_class}.from_pretrained("{facts.base}", {revision}dtype=config.dtype)',
            f'delta = load_file(cached_file("{FOLDER}", "delta.safetensors"))',
            "weights = dict(base.named_parameters()) | delta",
            'for name in [key[:-5] for key in delta if key.endswith(".rows")]:',
            "    rows = torch.cat([base.get_parameter(name), delta[name]])",
            '    weights[name] = rows[delta[name + ".rows"]]',
            f"model = {auto_class}.from_config(config, dtype=config.dtype).eval()",
            "model.load_state_dict(weights, strict=False)",
        ]
        adapter = f'PeftModel.from_pretrained(model, "{FOLDER}", subfolder="adapter")'
        lines += [f"model = {adapter}.merge_and_unload()"] if facts.adapter else []
    advice = "The tokenizer adds the special tokens that lexigraft uses in training and evaluation."
    if not masked:
        start = "".join(tokenizer.convert_ids_to_tokens(start_ids(tokenizer)))
        if start:
            advice = (
                f"**Begin every text with `{start}`**, as pretraining did, and as lexigraft does "
                "in training and evaluation: the tokenizer does not add it. After another token, "
                "or without one, predictions are worse."
            )
        elif automatic := document_start(tokenizer):
            advice = (
                f"The tokenizer begins every text with `{automatic}`, as in training and "
                "evaluation."
            )
        else:
            advice = "Texts begin without a special token, as in training and evaluation."
        if tokenizer.chat_template:
            advice += " For conversations, use `tokenizer.apply_chat_template` alone."
        prompt = f"{json.dumps(start)} + text" if start else "text"
        lines += [
            'text = "The beginning of a text"',
            f'inputs = tokenizer({prompt}, return_tensors="pt")',
            "print(tokenizer.decode(model.generate(**inputs, max_new_tokens=50)[0]))",
        ]
    return "## Use\n\n" + "```python\n" + "\n".join(lines) + "\n```\n\n" + advice


def _section(title: str, lines: Sequence[str]) -> str:
    return f"## {title}\n\n" + "\n".join(f"- {line}" for line in lines) if lines else ""


def _numbers(facts: ModelFacts) -> str:
    if not facts.numbers:
        return ""
    columns = list(dict.fromkeys(name for row in facts.numbers.values() for name in row))
    rows = [
        [name, *(row.get(column, "–") for column in columns)] for name, row in facts.numbers.items()
    ]
    columns = ["", *columns]
    table = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in table)
    return f"## Numbers\n\n{facts.measured_on}\n\n{lines}"
