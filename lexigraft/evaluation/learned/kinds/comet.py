"""COMET and xCOMET, by unbabel-comet: score an output against its reference and its source."""

from pathlib import Path

VERSION = 1  # raise it if the same texts get other scores
PACKAGES = ("unbabel-comet",)
# Part of a checkpoint -> groups of file names; the first file of each group that exists is used. Of
# the encoder, only the tokenizer and the configuration are read.
FILES = {
    "checkpoint": (("hparams.yaml",), ("checkpoints/model.ckpt",)),
    "encoder": (("config.json",), ("tokenizer.json", "sentencepiece.bpe.model")),
}
# Files that are used if they exist.
OPTIONAL_FILES = {"encoder": ("tokenizer_config.json", "special_tokens_map.json")}


def load(job):
    """The model, and the names of tensors that its checkpoint lacks; only tensors are unpickled."""
    import comet.models
    import yaml

    folder, missing = Path(job["checkpoint"]), []
    # COMET's YAML loader can create objects; a file that the safe loader accepts has none.
    settings = yaml.safe_load((folder / "hparams.yaml").read_text(encoding="utf-8"))

    class Checked(comet.models.str2model[settings["class_identifier"]]):
        def on_load_checkpoint(self, checkpoint):
            names = {name for name, _ in self.named_parameters()}
            missing.extend(sorted(names - set(checkpoint["state_dict"])))

    # `comet.models.load_from_checkpoint` does the same, but has neither `weights_only` nor
    # `pretrained_model`. Since COMET 2.2.4, sparsemax_patch means softmax (its issue 244).
    patched = settings.get("layer_transformation") == "sparsemax_patch"
    model = Checked.load_from_checkpoint(
        str(folder / "checkpoints" / "model.ckpt"),
        map_location="cpu",
        strict=False,
        weights_only=True,
        load_pretrained_weights=False,
        pretrained_model=job["encoder"],
        local_files_only=True,
        **({"layer_transformation": "softmax"} if patched else {}),
    )
    return model, missing


def score(model, rows, job):
    """One score per row."""
    names = {"output": "mt", "reference": "ref"} | ({"source": "src"} if job["uses_source"] else {})
    samples = [{new: row[old] for old, new in names.items()} for row in rows]
    predicted = model.predict(
        samples,
        batch_size=job["batch_size"],
        gpus=int(job["device"] == "cuda"),
        num_workers=0,
        progress_bar=False,
    )
    return [float(score) for score in predicted.scores]
