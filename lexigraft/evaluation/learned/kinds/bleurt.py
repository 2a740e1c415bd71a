"""BLEURT, by bleurt-pytorch: scores an output against its reference."""

from pathlib import Path

VERSION = 1  # raise it if the same texts get other scores
PACKAGES = ("bleurt-pytorch",)
# Part of a checkpoint -> groups of file names; the first file of each group that exists is used.
FILES = {
    "checkpoint": (
        ("config.json",),
        ("model.safetensors", "pytorch_model.bin"),
        ("spm.model", "vocab.txt"),
    )
}
# Files that are used if they exist.
OPTIONAL_FILES = {"checkpoint": ("tokenizer_config.json", "special_tokens_map.json")}


def load(job):
    """The model with its tokenizer, and the names of tensors that its checkpoint lacks.

    Reads safetensors, or a pickle of tensors only.
    """
    from bleurt_pytorch import BleurtForSequenceClassification, BleurtTokenizer

    folder = Path(job["checkpoint"])
    model, loading = BleurtForSequenceClassification.from_pretrained(
        folder,
        use_safetensors=(folder / "model.safetensors").is_file(),
        weights_only=True,
        local_files_only=True,
        output_loading_info=True,
    )
    tokenizer = BleurtTokenizer.from_pretrained(folder, local_files_only=True)
    return (model.to(job["device"]).eval(), tokenizer), loading["missing_keys"]


def score(loaded, rows, job):
    """One score per row; as in BLEURT, the longer text is truncated if both do not fit."""
    import torch

    model, tokenizer = loaded
    scores = []
    for first in range(0, len(rows), job["batch_size"]):
        batch = rows[first : first + job["batch_size"]]
        inputs = tokenizer(
            [row["reference"] for row in batch],
            [row["output"] for row in batch],
            padding="longest",
            truncation="longest_first",
            max_length=model.config.max_position_embeddings,
            return_tensors="pt",
        )
        with torch.inference_mode():
            scores += model(**inputs.to(model.device)).logits.flatten().tolist()
    return scores
