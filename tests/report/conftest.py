"""A study on disk, made up but shaped as the stages write it, to build reports from."""

import csv
import json
import math
import random
from pathlib import Path

import pytest

from lexigraft.report.frame import SEEDED
from lexigraft.report.published import FIELDS
from tests.conftest import package_folder

LANGUAGES = {
    "te-made": {"name": "Telugu", "code": "te", "script": "Telu"},
    "el-made": {"name": "Greek", "code": "el", "script": "Grek"},
}
INITIALIZERS = ("random", "multivariate", "mean-of-all", "mean", "merge", "align")
STRATEGIES = ("2x2ls-clm-512", "lora-clm-2048", "lora-clm-512", "2x2ls-mtp-512")
START = {"random": 3.1, "multivariate": 2.95, "mean-of-all": 2.4, "mean": 2.0, "merge": 2.05,
         "align": 1.93, "none": 1.62}  # fmt: skip
END = {"random": 1.61, "multivariate": 1.6, "mean-of-all": 1.55, "mean": 1.43, "merge": 1.44,
       "align": 1.42, "none": 1.38}  # fmt: skip
WORDS = {
    "te-made": ["లక్ష్మి", "తెలుగు", "క్ష్మి", "స్త్రీ", "వనరులు", "అభ్యాసకుడు", "పాఠం", "తరగతి", "కొత్త", "ఖాతా"],
    "el-made": [
        "Ελληνικά",
        "γλώσσα",
        "μάθημα",
        "τάξη",
        "χρήστης",
        "πόροι",
        "νέος",
        "σχολείο",
        "και",
        "για",
    ],
}
ENGLISH = ["class", "new user", "a lesson", "the school", "resources", "account", "learner"]


class MadeStudy:
    """Writes cells, records and cards below a folder and lists them as a report job does."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.inputs = {
            "records": [], "fragmentation": [], "training": {}, "initialization": {},
            "alignment": [], "checkpoints": [], "tokenizers": [], "corpora": {}, "planned": [],
            "contamination": [],
            "languages": LANGUAGES, "fonts": None,
        }  # fmt: skip
        self.settings = {
            "study": "made", "title": "A made study", "items": [],
            "reference": {"strategy": STRATEGIES[0]},
        }  # fmt: skip

    def record(self, cell, task, kind, metrics, run=0, predictions=None, settings=None,
               checkpoint=None, details=None):  # fmt: skip
        """One evaluation record; `cell` is its six axes."""
        *names, seed = cell
        place, which = self.folder / "evaluation" / "/".join(names) / f"seed-{seed}", {}
        if checkpoint is not None:
            place, which = place / f"checkpoint-{checkpoint}", {"checkpoint": checkpoint}
        place = place / task / f"run-{run}"
        write(place / "record.json", {
            **which,
            "task": task, "kind": kind, "cell": dict(zip(SEEDED, cell, strict=True)), "run": run,
            "metrics": metrics, "details": details or {}, "settings": settings or {}, "seed": [0],
            "versions": {"python": "3.11.9", "torch": "2.13.0"},
        })  # fmt: skip
        if predictions:
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in predictions)
            (place / "predictions.jsonl").write_text(lines, encoding="utf-8")
        kind_of = "records" if checkpoint is None else "checkpoints"
        self.inputs[kind_of].append(str(place / "record.json"))
        self.inputs["planned"].append((cell[1], task))

    def trained(self, cell, before, after, steps=60, checkpoints=1, english=None,
                parameters=135_000_000):  # fmt: skip
        """The card and the log of a trained cell; `english` is before and after."""
        *names, seed = cell
        place = self.folder / "training" / "/".join(names) / f"seed-{seed}"
        draw = random.Random(repr(cell))
        lines = [{"event": "heldout", "step": 0, "tokens": 0, "bits_per_byte": before,
                  "perplexity": 9.0}]  # fmt: skip
        for step in range(1, steps + 1):
            share = 1 - math.exp(-4 * step / steps)
            loss = 4 * (before - (before - after) * share) + draw.gauss(0, 0.12)
            lines.append({"event": "step", "phase": 0, "step": step, "tokens": 512 * step,
                          "loss": loss, "learning_rate": 1e-4, "tokens_per_second": 900.0,
                          "seconds": 0.5})  # fmt: skip
            if step % (steps // 3) == 0:
                now = before - (before - after) * share / (1 - math.exp(-4))
                lines.append({"event": "heldout", "step": step, "tokens": 512 * step,
                              "bits_per_byte": now, "perplexity": 9.0})  # fmt: skip
        write(place / "card.json", {
            "trained_parameters": 42_000_000, "total_parameters": parameters, "steps": steps,
            "tokens": 512 * steps, "seconds": steps / 2, "tokens_per_second": 1024.0,
            "peak_memory_bytes": 2_400_000_000, "precision": "float32", "device": "x86_64 CPU",
            "threads": 1, "processes": 1, "resumed_from_step": None, "heldout_before": before,
            "flops_per_token": 2e8, "flops_per_batch": 1e11,
            "checkpoints": checkpoints,
            "heldout_after": after, "files": {}, "versions": {"torch": "2.13.0"},
            "job": {"settings": {"curve": {"sentences": 16},
                                 "phases": [{"objective": names[-1].split("-")[1],
                                             "length": int(names[-1].split("-")[2])}]}},
        })  # fmt: skip
        if english:
            watched = [line for line in lines if line["event"] == "heldout"]
            for line in watched:
                share = line["step"] / steps
                line["english_bits_per_byte"] = english[0] + share * (english[1] - english[0])
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (place / "log.jsonl").write_text(text, encoding="utf-8")
        self.inputs["training"][str(place)] = dict(zip(SEEDED, cell, strict=True))

    def vocabulary(self, language, new_tokens=500, before=253.0, after=71.0, source="tiny",
                   name="expand-500", members=None):  # fmt: skip
        """A vocabulary's fragmentation record; `members` are metrics of those of a group."""
        key = (source, language, name)
        record = self.folder / "evaluation" / "/".join(key) / "fragmentation" / "record.json"
        write(record, {
            "source": key[0], "language": language, "vocabulary": key[2],
            "members": members or {},
            "metrics": {
                "fertility": after / 8, "source_fertility": before / 8,
                "tokens_per_sentence": after, "source_tokens_per_sentence": before,
                "bytes_per_token": 150 / after, "source_bytes_per_token": 150 / before,
                "characters_per_token": 60 / after, "source_characters_per_token": 60 / before,
                "new_tokens": new_tokens, "new_token_share_input": 0.83,
                "unused_new_tokens": 0.0, "english_sentences_changed": 0.0,
                "english_tokens_growth": 0.0, "english_parity": after / 14,
                "source_english_parity": before / 14,
            },
        })  # fmt: skip
        self.inputs["fragmentation"].append(str(record))

    def initialized(self, language, initializer, fit="all-seeds", source="tiny", **numbers):
        """The card of a fitted initializer with a few tokens and their parts, and more numbers."""
        names = (source, language, "expand-500", initializer)
        place = self.folder / "initialization" / "/".join(names) / fit
        drawn = initializer in ("random", "multivariate")
        parts = [["\\xe0\\xb0", 0.4], ["\\x95", 0.2], [WORDS[language][0][:2], 0.22], [" ", 0.1],
                 ["\\xe0\\xb1\\x81", 0.03]]  # fmt: skip
        examples = []
        for i, word in enumerate(WORDS[language]):
            own = parts[: 2 + i % 4]
            total = sum(weight for _, weight in own) / (0.85 if i % 5 == 4 else 1)
            own = [[text, weight / total] for text, weight in own]
            examples.append({
                "token": "x", "text": (" " if i % 2 else "") + word,
                "parts": [] if drawn else own, "more": 3 if i % 5 == 4 else 0,
                "nearest": [["one", 0.91], ["two", 0.5]] if initializer == "align" else [],
            })  # fmt: skip
        statistics = {"new_tokens": 500, "copied_tokens": 1500, "initialized_tokens": 500,
                      "share_copied": 0.75, "cosine_to_mean": 0.61}  # fmt: skip
        if not drawn:
            statistics |= {
                "share_recipe": 0.992, "share_copy": 0.0, "share_fallback": 0.008,
                "mean_nonzeros": 6.2, "mean_entropy": 1.61, "share_in_hull": 1.0,
                "largest_hub": 431, "largest_hub_token": "\\xe0",
            }  # fmt: skip
        write(place / "card.json", numbers | {
            "fallbacks": 4, "fallback_tokens": [], "statistics": statistics, "examples": examples,
            "job": {}, "files": {}, "versions": {},
        })  # fmt: skip
        seed = None if fit == "all-seeds" else int(fit.removeprefix("seed-"))
        axes = ("source", "language", "vocabulary", "initializer", "seed")
        self.inputs["initialization"][str(place)] = dict(zip(axes, (*names, seed), strict=True))

    def aligned(self, language, initializer, bleu, similarity=None, vocabulary="expand-500",
                fit="all-seeds"):  # fmt: skip
        """The alignment record of a fitted initializer; one without `bleu` is of drawn rows."""
        key = ("tiny", language, vocabulary, initializer)
        place = self.folder / "evaluation" / "/".join(key) / "alignment" / fit
        metrics = {} if bleu is None else {
            "bleu": bleu, "bleu_1": min(100.0, 1.5 * bleu + 10), "bleu_sentence_mean": bleu,
            "vocabulary_coverage": 0.99, "text_coverage": 0.995,
        }  # fmt: skip
        if similarity is not None:
            metrics["semantic_similarity"] = similarity
        axes = dict(zip(("source", "language", "vocabulary", "initializer"), key, strict=True))
        write(place / "record.json", {**axes, "fit": fit, "metrics": metrics})
        self.inputs["alignment"].append(str(place / "record.json"))

    def tokenizer(self, name, language, length, parity=None):
        """The record of a tokenizer without a model; without `parity` there are no translations."""
        metrics = {
            "tokens_per_sentence": length, "fertility": length / 8, "bytes_per_token": 2.0,
            "unknown_tokens": 0.0, "size": 32000, "unused_tokens": 0.9, "unreachable_tokens": 0.01,
        }  # fmt: skip
        if parity:
            metrics |= {"english_parity": parity, "english_tokens_per_sentence": length / parity}
        place = self.folder / "fragmentation" / name / language / "record.json"
        axes = {"tokenizer": name, "language": language}
        write(place, {**axes, "metrics": metrics, "versions": {"tokenizers": "0.23.3"}})
        self.inputs["tokenizers"].append(str(place))

    def corpus(self, language, contamination, repair=(), reduced=None, **damage):
        """The card of a language's texts; `damage` is of its parallel text, by count."""
        counts = dict.fromkeys(("blank", "not_nfc", "mojibake", "zawgyi", "csv_quotes"), 0)
        counts |= {"read": 1200, "kept": 1100, "duplicate": 100, "byte_order_mark": 1}
        place = self.folder / "corpus" / language / "card.json"
        write(place, {
            "cleaning": {"text": counts, "parallel": counts | damage},
            "contamination": contamination,
            "reduced": reduced or {},
            "kept_out_of_training": {"like_translation_test": 2, "like_heldout": 1},
            "sizes": {"train": {"sentences": 1000, "characters": 50_000, "bytes": 120_000},
                      "heldout": {"sentences": 100, "characters": 5_000, "bytes": 12_000}},
            "job": {"settings": {"repair": list(repair)}},
        })  # fmt: skip
        self.inputs["corpora"][language] = str(place)

    def counted(self, language, task, *rows):
        """The record of a task's tests in training text; a row: test, part, texts and found."""
        tests = [
            {"test": test, "part": part, "texts": texts, "found": found, "mostly_found": 0,
             "training_sentences": found}
            for test, part, texts, found in rows
        ]  # fmt: skip
        place = self.folder / "corpus" / language / "contamination" / task / "record.json"
        write(place, {"language": language, "task": task, "tests": tests, "not_counted": {}})
        self.inputs["contamination"].append(str(place))

    def measured(self, cell, bits, chrf, speed_up, tasks=("perplexity", "translation", "speed")):
        """Records of all tasks of one cell."""
        language, new = cell[1], cell[3] != "none"
        draw = random.Random(repr(cell))
        if "perplexity" in tasks:
            english = 1.01 + 0.02 * draw.random()
            self.record(cell, "perplexity", "perplexity", {
                "bits_per_byte": bits, "perplexity": 2 ** (bits * (6 if new else 1.2)),
                "nats_per_token": bits, "english_bits_per_byte": english,
                "english_perplexity": 21.0, "tokens": 7100, "bytes": 25000,
            }, predictions=sentences(cell, heldout=bits, english=english))  # fmt: skip
        if "translation" in tasks:
            rows = [
                {"id": f"{i}", "prompt": f"Translate: {text} =",
                 "output": self._words(draw, language),
                 "reference": self._words(random.Random(i), language),
                 "chrf": max(0.0, chrf + draw.gauss(0, 6))}
                for i, text in enumerate(ENGLISH)
            ]  # fmt: skip
            self.record(cell, "translation", "translation",
                        {"chrf": chrf, "new_token_share_output": 0.8 if new else 0.0,
                         "samples": len(rows)}, predictions=rows)  # fmt: skip
        if "speed" in tasks:
            metrics = {}
            for batch, rate in ((1, 21.0), (8, 88.0)):
                metrics |= {
                    f"tokens_per_second_batch_{batch}": rate * (0.97 if new else 1),
                    f"characters_per_second_batch_{batch}": rate * 0.4 * speed_up,
                    f"bytes_per_second_batch_{batch}": rate * speed_up,
                    f"steps_per_second_batch_{batch}": rate,
                    f"same_text_characters_per_second_batch_{batch}": rate * 0.37 * speed_up,
                }
            self.record(cell, "speed", "speed", metrics | {"steps_per_sentence": 70.0})

    def _words(self, draw, language):
        return " ".join(draw.choice(WORDS[language]) for _ in range(5))


def sentences(cell, **levels):
    """Sentences of each test whose bits per byte are about its level, and together just that."""
    draw, rows = random.Random(f"{cell} sentences"), []
    for test, level in levels.items():
        noise = [draw.gauss(0, 0.02) for _ in range(20)]
        rows += [{"id": f"{test}-{at}", "test": test, "tokens": 355, "bytes": 1250,
                  "nats": level * (1 + own - sum(noise) / 20) * 1250 * math.log(2)}
                 for at, own in enumerate(noise)]  # fmt: skip
    return rows


def numbers(folder, *rows, name="made"):
    """A file of numbers that a paper prints; rows are what they have beside their place in it."""
    path = folder / f"{name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        place = {"table": "1", "row": "a model", "column": "MT", "task": "mt", "metric": "chrf"}
        writer.writerows([place | {"factor": "1"} | row for row in rows])
    return path


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def full_study(folder: Path) -> MadeStudy:
    """Two languages, six initializers, two seeds, the baselines and three more strategies."""
    made = MadeStudy(folder)
    for place, language in enumerate(LANGUAGES):
        made.vocabulary(language, before=253.0 - 120 * place, after=71.0 - 18 * place)
        for name, length in (("small", 253.0), ("large", 90.0)):
            made.tokenizer(name, language, length - 60 * place, parity=length / 20)
        tests = {"texts": 100, "found": place, "mostly_found": 0, "training_sentences": place}
        made.corpus(language, {"translation": tests}, zawgyi=3 * place)
        cell = ("tiny", language, "source", "none", "none", 0)
        made.measured(cell, 1.62 + 0.3 * place, 4.1, 1.0)
        for seed in (0, 1):
            cell = ("tiny", language, "source", "none", STRATEGIES[0], seed)
            made.trained(cell, 1.62 + 0.3 * place, 1.38 + 0.3 * place + 0.003 * seed)
            made.measured(cell, 1.38 + 0.3 * place + 0.003 * seed, 9.0 + seed, 1.01)
        for rank, initializer in enumerate(INITIALIZERS):
            if initializer in ("random", "multivariate"):
                made.initialized(language, initializer, "seed-0")
                made.initialized(language, initializer, "seed-1")
                made.aligned(language, initializer, None, fit="seed-0")
            else:
                made.initialized(language, initializer)
                # The lower the loss that training starts from, the higher.
                made.aligned(language, initializer, 120 / START[initializer] - 40,
                             1 / START[initializer])  # fmt: skip
            if initializer in ("random", "merge"):  # as they are before any training
                cell = ("tiny", language, "expand-500", initializer, "none", 0)
                made.measured(cell, START[initializer] + 0.3 * place, 2.0, 2.9, ("perplexity",))
            for seed in (0, 1):
                shift = 0.3 * place + 0.006 * seed * (1 + rank % 3)
                cell = ("tiny", language, "expand-500", initializer, STRATEGIES[0], seed)
                made.trained(cell, START[initializer] + shift, END[initializer] + shift,
                             checkpoints=3)  # fmt: skip
                for number in (1, 2):
                    score = {"chrf": 2.0 + number + rank / 3 + seed}
                    made.record(cell, "translation", "translation", score, checkpoint=number)
                tasks = ("perplexity", "translation", "speed") if seed == 0 else ("perplexity",
                         "translation")  # fmt: skip
                made.measured(cell, END[initializer] + shift, 3.0 + 1.4 * rank + seed * 0.4,
                              2.9 - 0.9 * place + 0.02 * rank, tasks)  # fmt: skip
    for rank, strategy in enumerate(STRATEGIES[1:]):
        for seed in (0, 1):
            cell = ("tiny", "te-made", "expand-500", "align", strategy, seed)
            made.trained(cell, START["align"], END["align"] + 0.05 * rank + 0.005 * seed)
            made.measured(cell, END["align"] + 0.05 * rank + 0.005 * seed, 8.0 - rank, 2.95,
                          ("perplexity", "translation", "speed") if seed == 0
                          else ("perplexity", "translation"))  # fmt: skip
    paper = {"task": "translation", "vocabulary": "expand-500", "value": "12.5"}
    made.inputs["published"] = [numbers(folder, paper)]
    return made


@pytest.fixture(scope="session")
def noto():
    """A folder of real fonts, one per script."""
    return package_folder("kolibri") / "kolibri/core/static/assets/fonts"


@pytest.fixture
def made_study(tmp_path):
    """An empty study to fill."""
    return MadeStudy(tmp_path)


@pytest.fixture(scope="session")
def built(tmp_path_factory, noto):
    """The report of the full study: `(folder, summary, study)`, built once."""
    from lexigraft.report.items import kinds
    from lexigraft.report.page import build_report

    folder = tmp_path_factory.mktemp("full")
    made = full_study(folder)
    made.inputs["fonts"] = noto
    families = [
        {"title": "Before", "models": [{"initializers": ["none"], "strategies": ["none"]}]},
        {"title": "Aligned", "models": [{"initializers": ["align"]}]},
    ]
    made.settings["items"] = [
        {"item": kind, "families": families, "tasks": ["perplexity", "translation"]}
        if kind in ("comparison", "family_scores")
        else kind
        for kind in kinds()
    ]
    out = folder / "report"
    result = build_report(made.settings, made.inputs, {"folder": str(out)})
    return out, result, made
