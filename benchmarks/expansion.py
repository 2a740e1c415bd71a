"""CPU time and memory of expanding a tokenizer, compared with training a new one on the same text.

Each method of learning the new tokens (`merges`) is compared with transformers'
train_new_from_iterator, which trains a new tokenizer with the same number of tokens. Loading is not
counted.
"""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from benchmarks.inputs import add_options, opened
from benchmarks.measuring import in_its_own_process, measured
from benchmarks.record import Measurements, described, parser, rounds
from lexigraft.evaluation.texts import lines_of
from lexigraft.source.tokenizer import load_tokenizer
from lexigraft.vocabulary.expand import MERGES, expand_tokenizer

NAME, NEW = "expansion", "new"
BYTES = 256  # the tokens of a byte-level tokenizer before training


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each method, and the new tokenizer once per round."""
    options = _parser().parse_args(arguments)
    with opened(options) as given:
        sizes = {"new_tokens": options.new_tokens, "threads": options.threads, **given.facts}
        run = described("transformers", "tokenizers", **sizes)
        order = [(merges,) for merges in MERGES]
        found = Measurements(options, NAME, run, keys=1, order=order)

        def timed(way: str) -> dict[str, float]:
            sizes = given.source, given.text, str(options.new_tokens)
            return in_its_own_process(NAME, "--work", way, *sizes, threads=options.threads)

        for _ in rounds(options):
            other = timed(NEW)
            for merges in MERGES:
                own = timed(merges)
                if not found.note_errors(merges, own, other):
                    beside = {"other_cpu": other["cpu"], "other_mib": other["mib"]}
                    found.add({"merges": merges, "cpu": own["cpu"], "mib": own["mib"], **beside})
    found.end()


def work(way: str, source: str, text: str, new_tokens: str) -> None:
    """Run one measurement in this process and print it."""
    tokenizer, lines, count = load_tokenizer(source), lines_of(Path(text)), int(new_tokens)

    def learn() -> object:
        if way == NEW:
            return tokenizer.train_new_from_iterator(lines, count + BYTES)
        return expand_tokenizer(tokenizer, lines, count, merges=way)

    print(json.dumps(measured(learn)))


def _parser() -> ArgumentParser:
    found = parser(NAME, __doc__)
    add_options(found)
    found.add_argument("--new-tokens", type=int, default=500)
    found.add_argument("--threads", type=int, default=1)
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:])
    else:
        main()
