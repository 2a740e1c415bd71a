"""Which architectures can be adapted: `python -m tests.more.architecture_matrix` records it.

A tiny random model of each type is adapted: from a folder as the hub has it to an export that plain
transformers loads. The record, `docs/results/architectures.json`, is the table of
docs/models.md; the tests beside this module compare it with what happens now.
"""

import copy
import sys
import traceback
from datetime import date
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedModel,
)
from transformers.models.auto import modeling_auto

import lexigraft
from lexigraft.artifacts.cards import versions
from lexigraft.errors import UserError
from lexigraft.inference.generation import generate
from lexigraft.initialization.registry import initializer
from lexigraft.setting_types import CAUSAL, MASKED
from lexigraft.source.model import is_masked, text_modules
from lexigraft.source.preparation import prepare_source
from lexigraft.training.export import export
from lexigraft.training.new_rows import attach_new_rows
from lexigraft.training.settings import read_strategy
from lexigraft.training.store import load_cell
from lexigraft.training.train import train_cell
from lexigraft.training.trainable import prepare_phase
from tests.architectures import (
    ENGLISH,
    SWAHILI,
    TEXT,
    check_kept_rows,
    rows_of_tokens,
    tiny_model,
)
from tests.training.trained import give_vocabulary
from workflow.records import open_record, record_path, write_record

NAME = "architectures"
# Kind -> the auto class, and the names of its types and their classes.
KINDS: dict[str, tuple[Any, dict[str, str]]] = {
    CAUSAL: (AutoModelForCausalLM, modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
    MASKED: (AutoModelForMaskedLM, modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES),
    "with towers": (
        AutoModelForImageTextToText,
        modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    ),
}
# Twelve scripts; short, since each byte may be a token of a model with 64 positions.
SCRIPTS = (
    "నది పొడవు", "แม่น้ำยาว", "نهر طويل", "長い川です", "긴 강이다", "река длинная", "το ποτάμι",
    "הנהר ארוך", "नदी लंबी है", "မြစ်ရှည်", "ஆறு நீளம்", "მდინარე",
)  # fmt: skip
PADDING = 3
_TRAINABLE = {
    "all": ["all"],
    "layers": [{"layers": [0, -1]}, "embeddings", "head"],
    "new-rows": ["new-rows"],
    "lora": ["lora"],
}


@cache
def tokenizers() -> tuple[Any, dict[str, Any]]:
    """A source tokenizer, and one target for each way to change a vocabulary."""
    source = lexigraft.train_tokenizer([*ENGLISH, *SCRIPTS], "byte-level-bpe", size=300)
    source.add_special_tokens({"mask_token": "<mask>", "pad_token": "<pad>"})
    replaced = lexigraft.train_tokenizer(
        [*SWAHILI, *ENGLISH], "byte-level-bpe", size=285, source_tokenizer=source
    )
    return source, {
        "expand": lexigraft.expand_tokenizer(source, SWAHILI, new_tokens=8),
        "prune": lexigraft.prune_tokenizer(source, [TEXT, *SWAHILI]),
        "replace": replaced,
    }


def outcome(kind: str, model_type: str, folder: Path) -> tuple[str, str]:
    """Adapt a tiny model: ("adapted", a note), ("refused", its message) or ("not tried", why)."""
    auto, _ = KINDS[kind]
    source_tokenizer, targets = tokenizers()
    rows = len(source_tokenizer) + PADDING
    try:
        model = tiny_model(auto, model_type, rows)
        loss(model, [5, 6, 7])
    except Exception as error:
        return "not tried", f"{type(error).__name__}: {' '.join(str(error).split())}"[:120]
    of_tokens = rows_of_tokens(model, rows, source_tokenizer(TEXT).input_ids)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.save_pretrained(folder / "hub")
    source_tokenizer.save_pretrained(folder / "hub")
    source = folder / "results/source/tiny"
    try:
        settings = {"folder": str(folder / "hub"), "kind": MASKED if kind == MASKED else CAUSAL}
        prepare_source(settings, source)
    except UserError as error:
        return "refused", str(error).replace(f"source {folder}/hub: ", "")
    corpus = folder / "results/corpus/te"
    corpus.mkdir(parents=True)
    (corpus / "train.txt").write_text("\n".join(SWAHILI) + "\n", "utf-8")
    (corpus / "heldout.txt").write_text("\n".join(SWAHILI[:2]) + "\n", "utf-8")
    (corpus / "english.txt").touch()
    notes, supported = [], []  # supported values of `trainable`
    for name, trainable in _TRAINABLE.items():
        strategy = read_strategy({"phases": [{"trainable": trainable, "length": 16}]})
        try:
            prepare_phase(copy.deepcopy(model), strategy.phases[0], [0])
            supported.append(trainable)
        except UserError as error:
            notes.append(f"no `{name}`: {str(error).partition(': ')[2].partition(';')[0]}")
    for change, target in targets.items():
        fitted = initializer("mean").fit(source_tokenizer, target, n_source=rows)
        trained = change == "expand"
        job = _job(folder / "results", change, supported if trained else (), kind == MASKED)
        give_vocabulary(job, folder / "results", target, fitted)
        train_cell(job)
        out = export(job["outputs"]["folder"], folder / change)
        exported, tokenizer = check_export(auto, job["outputs"]["folder"], out)
        if change == "prune":
            pruned = rows_of_tokens(exported, fitted.n_target, tokenizer(TEXT).input_ids)
            check_kept_rows(of_tokens, pruned, fitted.source_of)
        if trained:
            check_towers(state, exported)
            if kind != MASKED:
                if ["new-rows"] in supported:
                    check_gradients(
                        exported, fitted.new_ids.tolist(), tokenizer(SWAHILI[0]).input_ids
                    )
                if not generates(exported):
                    notes.append("transformers cannot generate with it")
                elif not generates_alike(exported, tokenizer):
                    notes.append("batch_size: 1")
    return "adapted", "; ".join(notes)


def _job(results: Path, change: str, phases: Any, masked: bool) -> dict[str, Any]:
    cell = {"source": "tiny", "language": "te", "vocabulary": change, "initializer": "mean"}
    cell |= {"strategy": "four-ways", "seed": 0}
    objective = {"objective": "mlm" if masked else "clm", "length": 16, "tokens": 64}
    settings = {
        "curve": {"sentences": 2, "points": 1},
        "phases": [{"trainable": trainable, **objective} for trainable in phases],
        **({"learning_rate": 1e-3, "batch_sequences": 2} if phases else {}),
    }
    inputs = {"source": str(results / "source/tiny"), "corpus": str(results / "corpus/te")}
    return {
        "rule": "train",
        "settings": settings,
        "inputs": {**inputs, "tokenizer": None, "initialization": None},
        "outputs": {"folder": str(results / "training" / change)},
        "cell": cell,
        "seed": ["study", "training", change],
        "versions": {"stage": 1},
    }


def loss(model: PreTrainedModel, ids: list[int]) -> float:
    """Cross-entropy of a text under a model: of each next token, or of all tokens if masked."""
    with torch.no_grad():
        options = {} if is_masked(model) else {"use_cache": False}
        logits = model.eval()(torch.tensor([ids]), **options).logits[0].float()
    targets = torch.tensor(ids)
    if is_masked(model):
        return torch.nn.functional.cross_entropy(logits, targets).item()
    return torch.nn.functional.cross_entropy(logits[:-1], targets[1:]).item()


def check_export(auto: Any, cell: str, out: Path) -> tuple[PreTrainedModel, Any]:
    """Plain transformers computes with an export what lexigraft computes with its cell."""
    model, tokenizer = load_cell(cell)
    exported, report = auto.from_pretrained(out, output_loading_info=True)
    assert not any(report.values()), report
    plain = AutoTokenizer.from_pretrained(out)
    for text in (TEXT, *SCRIPTS):
        ids = tokenizer(text).input_ids
        assert plain(text).input_ids == ids, text
        unknown = tokenizer.unk_token_id in ids
        assert unknown or plain.decode(ids, skip_special_tokens=True) == text
        assert abs(loss(exported, ids) - loss(model, ids)) < 1e-5, text
    return exported, plain


def check_towers(source: dict[str, torch.Tensor], adapted: PreTrainedModel) -> None:
    """Parts that do not compute with text are bit for bit the source's."""
    text = {id(tensor) for part in text_modules(adapted) for tensor in part.parameters()}
    for name, parameter in adapted.named_parameters():
        assert id(parameter) in text or torch.equal(parameter, source[name]), name


def check_gradients(model: PreTrainedModel, new_ids: list[int], ids: list[int]) -> None:
    """`new-rows` gives new tokens the gradients that they have when the whole matrix is trained."""
    assert set(new_ids) & set(ids)
    tokens = torch.tensor([ids])
    alone = copy.deepcopy(model)
    alone.requires_grad_(False)
    attach_new_rows(alone, new_ids)
    for trained in (model, alone):
        logits = trained(tokens, use_cache=False).logits[0, :-1]
        torch.nn.functional.cross_entropy(logits, tokens[0, 1:]).backward()
    order = sorted(new_ids)
    for layer in ("get_input_embeddings", "get_output_embeddings"):
        plain, rows = getattr(model, layer)().weight, getattr(alone, layer)().new_rows
        torch.testing.assert_close(rows.grad, plain.grad[order], rtol=1e-3, atol=1e-6)


def generates(model: PreTrainedModel) -> bool:
    """Whether transformers itself continues a text."""
    try:
        model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=2, do_sample=False)
    except Exception:
        return False
    return True


def generates_alike(model: PreTrainedModel, tokenizer: Any) -> bool:
    """Whether texts that are generated in a batch are those that are generated one by one."""
    prompts = {text: text for text in (TEXT, SWAHILI[0], "a house")}
    texts = []
    for size in (1, 3):
        settings = {"max_new_tokens": 6, "batch_size": size, "stop": ("\n",)}
        texts.append(generate(model, tokenizer, prompts, **settings))
    return texts[0] == texts[1]


def check(kind: str, model_type: str, folder: Path) -> None:
    """Assert that the outcome for a type is the recorded one."""
    assert outcome(kind, model_type, folder) == recorded()[kind, model_type]


def recorded() -> dict[tuple[str, str], tuple[str, str]]:
    """(kind, type) -> outcome and note, from the record."""
    rows = open_record(NAME).rows("architectures")
    return {(row["kind"], row["type"]): (row["outcome"], row["note"]) for row in rows}


def main(*types: str) -> None:
    """Try all types, or those that are named, and write the record."""
    results = recorded() if record_path(NAME).exists() else {}
    for kind, (_, all_types) in KINDS.items():
        for model_type in all_types:
            if types and model_type not in types:
                continue
            with TemporaryDirectory() as folder:
                try:
                    result = outcome(kind, model_type, Path(folder))
                except Exception as error:
                    traceback.print_exc()
                    result = "fails", f"{type(error).__name__}: {error}"
            results[kind, model_type] = result
            print(kind, model_type, *result, flush=True)
    rows = [[*key, KINDS[key[0]][1][key[1]], *result] for key, result in results.items()]
    columns = ["kind", "type", "class", "outcome", "note"]
    tables = {"architectures": [columns, *rows]}
    run = {"date": f"{date.today()}", "transformers": versions()["transformers"]}
    write_record(NAME, {"run": run, "tables": tables})


if __name__ == "__main__":
    main(*sys.argv[1:])
