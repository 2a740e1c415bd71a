"""A cell's model as the harness asks it: it goes on after an interruption where it was."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.models.huggingface import HFLM
from tqdm import tqdm

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

_CHUNK = 1024  # requests that are answered, and kept, together; some 250 questions
_PARTIAL = "likelihoods-{}.partial.jsonl"


class CellModel(HFLM):
    """The harness's own model of transformers, around one that is there already.

    Log-likelihoods are summed in float32, whatever the model's precision.

    Parameters
    ----------
    model, tokenizer
        As `load_cell` puts them together; nothing is exported.
    batch_size
        Answers read together.
    folder
        Gets what was answered so far, until `forget`.
    identity
        Whatever decides the answers beside the questions: a digest of the model, for instance.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerFast",
        *,
        batch_size: int,
        folder: str | Path,
        identity: str,
    ):
        super().__init__(
            pretrained=model, tokenizer=tokenizer, batch_size=batch_size, softmax_dtype="float32"
        )
        self.folder, self.identity = Path(folder), f"{identity} {batch_size}"

    def loglikelihood(
        self, requests: "list[Instance]", disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Log-likelihood of each continuation after its context, and whether it is the greedy one.

        In chunks, each kept once it is answered: the same requests are not answered again.
        """
        questions = [request.args for request in requests]
        file = self.folder / _PARTIAL.format(_digest([self.identity, questions]))
        done = _read(file)
        chunks = range(0, len(requests), _CHUNK)
        with file.open("a", encoding="utf-8") as partial:
            for first in tqdm(chunks[len(done) :], desc="choose", unit="chunk", disable=None):
                chunk = super().loglikelihood(requests[first : first + _CHUNK], disable_tqdm=True)
                done.append([(float(value), bool(greedy)) for value, greedy in chunk])
                partial.write(json.dumps(done[-1]) + "\n")
                partial.flush()
        return [answer for chunk in done for answer in chunk]

    def forget(self) -> None:
        """Remove what was kept to go on from: the scores are elsewhere now."""
        for file in self.folder.glob(_PARTIAL.format("*")):
            file.unlink()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def _read(file: Path) -> list[list[tuple[float, bool]]]:
    """The chunks that were answered; a line that was cut off goes, from the file too."""
    lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    return [[(value, greedy) for value, greedy in json.loads(line)] for line in lines]
