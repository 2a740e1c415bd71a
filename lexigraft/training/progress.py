"""The progress of a training in one line, for the log of its job and the status of a study.

It is read from the training log; torch is not imported here.
"""

import json
from datetime import timedelta
from pathlib import Path

_RECENT = 20  # lines over which loss and speed are averaged
# How such lines begin.
_HELDOUT, _STEP = b'{"event": "heldout"', b'{"event": "step"'


def describe_progress(file: Path) -> str:
    """Step, loss, held-out score, speed, peak memory and time left, from a `log.jsonl`; or nothing.

    Loss and speed are means over the last steps of the phase.
    """
    try:
        written = file.read_bytes().split(b"\n")[:-1]
        # Only a few lines are parsed: a long training has a hundred thousand.
        heldout = [json.loads(line) for line in written if line.startswith(_HELDOUT)]
        steps = [json.loads(line) for line in written[-_RECENT:] if line.startswith(_STEP)]
    except (OSError, ValueError):
        return ""
    facts = []
    if heldout:
        first, last = heldout[0], heldout[-1]
        encoder = first["bits_per_byte"] is None  # which has only a perplexity of masked tokens
        key = "perplexity" if encoder else "bits_per_byte"
        before = f" ({first[key]:.3f} before training)" if last["step"] else ""
        facts.append(f"held-out {key.replace('_', ' ')} {last[key]:.3f}{before}")
    if steps:
        last = steps[-1]
        steps = [line for line in steps if line["phase"] == last["phase"]]
        seconds = sum(line["seconds"] for line in steps)
        speed = sum(line["tokens_per_second"] * line["seconds"] for line in steps) / seconds
        share = last["share_of_peak"]
        if share:  # the peak is constant
            share *= speed / last["tokens_per_second"]
        left = (last["steps"] - last["step"]) * seconds / len(steps)
        facts = [
            f"step {last['step']:,} of {last['steps']:,} ({last['step'] / last['steps']:.0%})",
            f"loss {sum(line['loss'] for line in steps) / len(steps):.3f}",
            *facts,
            f"{speed:,.0f} tokens/s" + (f" ({share:.0%} of peak)" if share else ""),
            f"peak memory {last['peak_memory_bytes'] / 2**30:.1f} GiB",
            f"{timedelta(seconds=round(left))} left",
        ]
    return ", ".join(facts)
