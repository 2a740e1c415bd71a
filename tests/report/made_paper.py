"""Made-up records of all of Yamaguchi et al.: its cells, tasks and runs, its tables as items."""

import random

from sacrebleu import corpus_chrf

from tests.report.conftest import MadeStudy, write

LANGUAGES = {"ar": "Arabic", "my": "Burmese", "de": "German", "el": "Greek", "hi": "Hindi",
             "ja": "Japanese", "si": "Sinhala", "sw": "Swahili", "te": "Telugu",
             "th": "Thai"}  # fmt: skip
SIX, THREE = ["ar", "my", "el", "hi", "si", "te"], ["my", "si", "te"]
INITIALIZERS = ["random", "focus", "mean", "merge", "align"]
SOURCES = ["llama-2-7b", "llama-3-8b", "gemma-2-9b"]
LORA, BEST = "lora-clm-2048", "2x2ls-mtp-512"
STRATEGIES = [f"{procedure}-{objective}-{length}" for procedure in ("lora", "two-stage", "2x2ls")
              for length in (2048, 512) for objective in ("clm", "mtp")]  # fmt: skip
HEADS = [f"{procedure}-mtp{head}-2048" for procedure in ("lora", "two-stage", "2x2ls")
         for head in ("", "-random-head")]  # fmt: skip
TASKS = ["translation", "summarization"]

_LLAMA = {"sources": ["llama-2-7b"], "vocabularies": ["expand-100"]}
_OTHERS = {"sources": SOURCES[1:], "languages": THREE, "vocabularies": ["expand-100"],
           "initializers": ["random", "mean", "align"], "strategies": [BEST]}  # fmt: skip
_MAIN = {**_LLAMA, "initializers": INITIALIZERS, "strategies": [LORA]}
ITEMS = [
    {"item": "results", "name": "table-1", "where": _MAIN, "tasks": TASKS},
    {"item": "perplexity", "name": "table-2", "where": _MAIN, "metrics": ["perplexity"]},
    {"item": "speed", "name": "table-3", "where": _MAIN, "metrics": ["speed_up"],
     "tasks": ["speed", "speed-summarization"]},
    {"item": "strategies", "name": "table-4", "tasks": TASKS, "where": {**_LLAMA, "languages": SIX,
     "initializers": ["align"], "strategies": STRATEGIES}},
    {"item": "results", "name": "table-5", "where": _OTHERS, "tasks": TASKS,
     "speed_up_of": "align"},
    {"item": "results", "name": "table-9", "tasks": TASKS, "where": {**_LLAMA, "languages": THREE,
     "initializers": ["focus", "focus-word"], "strategies": [LORA]}},
    {"item": "strategies", "name": "table-10", "tasks": TASKS, "where": {**_LLAMA,
     "languages": ["ar", "el", "hi"], "initializers": ["align"], "strategies": HEADS}},
    {"item": "perplexity", "name": "table-11", "where": _OTHERS, "metrics": ["perplexity"]},
    {"item": "results", "name": "table-12", "tasks": ["summarization"],
     "where": {**_OTHERS, "sources": SOURCES}, "metrics": ["rouge_l", "bleurt"]},
    {"item": "perplexity", "name": "bits-per-byte", "where": _MAIN, "metrics": ["bits_per_byte"]},
    {"item": "significance", "name": "significance", "where": _MAIN, "tasks": TASKS},
]  # fmt: skip


def paper_study(folder, runs=2, samples=8):
    """Every cell of the paper with one seed; only the cells of Table 1 keep their outputs."""
    made = MadeStudy(folder)
    made.settings["reference"] = {"strategy": LORA}
    made.settings["items"] = ITEMS
    made.inputs["languages"] = {key: {"name": name} for key, name in LANGUAGES.items()}
    made.inputs["learned"] = []
    for cell in cells():
        _measured(made, cell, runs, samples)
    return made


def cells():
    """`(source, language, vocabulary, initializer, strategy, seed)` of all cells, Source first."""
    llama = SOURCES[0]
    found = []
    for source in SOURCES:
        for language in LANGUAGES if source == llama else THREE:
            found += [(source, language, "source", "none", name, 0) for name in ("none", LORA)]
    for language in LANGUAGES:
        found += [(llama, language, "expand-100", name, LORA, 0) for name in INITIALIZERS]
    found += [(llama, key, "expand-100", "align", name, 0) for key in SIX for name in STRATEGIES]
    found += [(llama, key, "expand-100", "align", name, 0) for key in ("ar", "el", "hi")
              for name in HEADS]  # fmt: skip
    found += [(llama, key, "expand-100", "focus-word", LORA, 0) for key in THREE]
    found += [(source, key, "expand-100", name, BEST, 0) for source in SOURCES for key in THREE
              for name in ("random", "mean", "align")]  # fmt: skip
    return list(dict.fromkeys(found))


def _measured(made, cell, runs, samples):
    """Records of all tasks of a cell, better the larger its name's draw is."""
    source, language, vocabulary, initializer, strategy, _ = cell
    draw = random.Random(repr(cell[:5]))
    worth = 0.6 + 0.8 * draw.random() if strategy != "none" else 1.0
    new = initializer != "none"
    made.record(cell, "perplexity", "perplexity", {"perplexity": 9 / worth + 3 * new,
                "bits_per_byte": 1.6 / worth, "english_bits_per_byte": 1.0})  # fmt: skip
    keeps = source == SOURCES[0] and vocabulary in ("source", "expand-100") and strategy in (
        "none", LORA)  # fmt: skip
    for run in range(runs):
        rows = [_output(random.Random(f"{language} {run} {i}"), draw, worth, run * samples + i)
                for i in range(samples)] if keeps else None  # fmt: skip
        chrf, rouge = 12 * worth + draw.random(), 24 * worth + draw.random()
        if rows:
            pairs = [[row[key] for row in rows] for key in ("output", "reference")]
            chrf = corpus_chrf(pairs[0], [pairs[1]]).score
            rouge = sum(row["rouge_l"] for row in rows) / samples
        made.record(cell, "translation", "translation", {"chrf": chrf}, run, rows)
        made.record(cell, "summarization", "summarization", {"rouge_l": rouge}, run, rows)
        _scored(made, cell, run, 0.1 * worth, [row["id"] for row in rows or []])
    for task, prompts, gain in (("speed", "translation", 0.4), ("speed-summarization",
                                "summarization", 1.4)):  # fmt: skip
        fast = 1 + gain * new * draw.random()
        metrics = {}
        for batch, rate in ((1, 42.0),):
            metrics |= {f"tokens_per_second_batch_{batch}": rate,
                        f"same_text_characters_per_second_batch_{batch}": rate * fast / 2}  # fmt: skip # noqa: E501
        made.record(cell, task, "speed", metrics, settings={"prompts_from": prompts})


def _output(known, draw, worth, number):
    words = [known.choice("abcdefgh") * 3 for _ in range(12)]
    kept = [word if draw.random() < 0.5 * worth else "zz" for word in words]
    score = 100 * sum(a == b for a, b in zip(words, kept, strict=True)) / len(words)
    return {"id": str(number), "source": "an article " * 40, "prompt": "p", "reference":
            " ".join(words), "output": " ".join(kept), "chrf": score, "rouge_l": score}  # fmt: skip


def _scored(made, cell, run, score, ids):
    """What BLEURT says of the summaries."""
    *names, seed = cell
    folder = made.folder / "evaluation" / "/".join(names) / f"seed-{seed}"
    place = folder / "summarization" / f"run-{run}" / "learned" / "bleurt-20.json"
    axes = ("source", "language", "vocabulary", "initializer", "strategy", "seed")
    write(place, {"task": "summarization", "kind": "summarization", "run": run,
                  "cell": dict(zip(axes, cell, strict=True)), "learned_metric": "bleurt-20",
                  "settings": {"metric": "bleurt"}, "metrics": {"bleurt": score}, "ids": ids,
                  "scores": [score] * len(ids)})  # fmt: skip
    made.inputs["learned"].append(str(place))
