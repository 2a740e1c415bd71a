"""Data sets in the form that the hub has them, each of a few rows, and a model that answers."""

import json

import pytest

# name -> config -> split -> rows
DATA = {
    "facebook/xnli": {
        config: {
            "train": [
                {"premise": "p", "hypothesis": "h", "label": 0},
                {"premise": "q", "hypothesis": "i", "label": 2},
                {"premise": "r", "hypothesis": "j", "label": 1},
            ],
            "validation": [
                {"premise": first, "hypothesis": second, "label": label}
                for first, second, label in rows
            ],
        }
        for config, rows in {
            "de": [("Es regnet", "Es ist nass", 0), ("Sie lacht", "Sie weint", 2),
                   ("Er geht", "Er singt", 1), ("Ja", "Nein", 2)],
            "en": [("It rains", "It is wet", 0), ("She laughs", "She cries", 2)],
        }.items()
    },
    "alexandrainst/m_arc": {
        "de": {
            split: [
                {"id": f"{split}-{at}", "instruction": question, "answer": answer,
                 **dict(zip(("option_a", "option_b", "option_c", "option_d", "option_e"),
                            [*options, None], strict=False))}
                for at, (question, options, answer) in enumerate(rows)
            ]
            for split, rows in {
                "train": [("Was ist kalt?", ["Eis", "Feuer", "Sand", "Gras"], "A"),
                          ("Was fliegt?", ["Stein", "Vogel", "Haus", "Baum"], "B")],
                "validation": [("Was ist rot?", ["Gras", "Schnee", "Blut", "Kohle"], "C")],
                "test": [("Was ist heiß?", ["Eis", "die Sonne am Mittag", "Wasser", "ein Ei"], "B"),
                         ("Was schwimmt?", ["ein Stein", "ein Fisch", "Blei", "Eisen"], "B"),
                         ("Was ist süß?", ["Salz", "Essig", "Pfeffer", "Zucker"], "D")],
            }.items()
        }
    },
    "cambridgeltl/xcopa": {
        config: {
            split: [
                {"premise": f"{word} {config} {at}.", "choice1": "Moto uliwaka.",
                 "choice2": f"Mvua ilinyesha {at} sana.", "question": ("cause", "effect")[at % 2],
                 "label": at % 2, "idx": at, "changed": False}
                for at in range(count)
            ]
            for split, word, count in (("validation", "Alifika", 3), ("test", "Aliondoka", 2))
        }
        for config in ("et", "ht", "id", "it", "qu", "sw", "ta", "th", "tr", "vi", "zh")
    },
    "juletxara/mgsm": {
        config: {
            "train": [{"question": f"{word}: 1 + 1?", "answer": f"{answer} 1 + 1 = 2.",
                       "answer_number": 2, "equation_solution": "1 + 1 = 2."}],
            "test": [{"question": f"{at} + 3?", "answer": None, "answer_number": at + 3,
                      "equation_solution": None} for at in (1, 2)],
        }
        for config, word, answer in (("te", "ప్రశ్న", "దశలవారీగా సమాధానం:"),
                                     ("en", "Question", "Step-by-Step Answer:"))
    },
    "google/IFEval": {
        "default": {
            "train": [
                {"key": 1, "prompt": "Write without commas.",
                 "instruction_id_list": ["punctuation:no_comma"],
                 "kwargs": [{"keywords": None, "end_phrase": None}]},
                {"key": 2, "prompt": "Write yes, without commas.",
                 "instruction_id_list": ["punctuation:no_comma", "keywords:existence"],
                 "kwargs": [{"keywords": None, "end_phrase": None},
                            {"keywords": ["yes"], "end_phrase": None}]},
            ]
        }
    },
    "Muennighoff/xwinograd": {
        "jp": {
            "test": [
                {"sentence": "The cup is in the bag because _ is small.", "option1": "the cup",
                 "option2": "the bag", "answer": "1"},
                {"sentence": "Ann thanked Eve because _ had helped.", "option1": "Ann",
                 "option2": "Eve", "answer": "2"},
                {"sentence": "The dog chased the cat until _ was tired.", "option1": "the dog",
                 "option2": "the cat", "answer": "1"},
            ]
        }
    },
}  # fmt: skip


def write_hub(folder, data):
    """Write data sets as a copy of the hub's repositories: rows, and a card that names them."""
    for name, configs in data.items():
        place = folder / name
        lines = ["---", "configs:"]
        for config, splits in configs.items():
            lines += [f"- config_name: {config}", "  data_files:"]
            for split, rows in splits.items():
                file = place / config / f"{split}.jsonl"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
                lines += [f"  - split: {split}", f"    path: {config}/{split}.jsonl"]
        (place / "README.md").write_text("\n".join([*lines, "---", ""]), "utf-8")


@pytest.fixture(scope="session")
def hub(tmp_path_factory):
    """A local copy of the data sets."""
    folder = tmp_path_factory.mktemp("hub")
    write_hub(folder, DATA)
    return folder


@pytest.fixture(scope="session")
def answering(byte_tokenizer, tiny_llama):
    """A random model, which prefers some letters, and a tokenizer of bytes."""
    import torch

    tokenizer = byte_tokenizer()
    model = tiny_llama(len(tokenizer), tied=False, seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(8)
    return model, tokenizer


@pytest.fixture
def by_hand(hub, tmp_path, monkeypatch):
    """`by_hand(model, tokenizer, task, folder, **options)`: the harness with its own model."""
    from pathlib import Path

    import datasets
    import lm_eval
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.chdir(hub)
    monkeypatch.setattr("lm_eval.evaluator.add_env_info", lambda results: None)

    def run(model, tokenizer, task, folder, batch_size=1, **options):
        task_folder = Path(lm_eval.tasks.__file__).parent / folder
        return lm_eval.simple_evaluate(
            model=HFLM(pretrained=model, tokenizer=tokenizer, batch_size=batch_size),
            tasks=[task],
            task_manager=TaskManager(include_path=task_folder, include_defaults=False),
            bootstrap_iters=0,
            **options,
        )

    return run


@pytest.fixture(scope="session")
def prepared(hub, tmp_path_factory):
    """`prepared(task, folder)` is where a benchmark was prepared from the local copy, once."""
    from lexigraft.evaluation.harness.benchmarks import prepare_benchmark

    root, done = tmp_path_factory.mktemp("benchmarks"), {}

    def prepare(task, folder):
        if task not in done:
            files, facts = prepare_benchmark(task, folder, str(hub), root / task)
            (root / task / "card.json").write_text(json.dumps({**facts, "files": files}))
            done[task] = root / task
        return done[task]

    return prepare
