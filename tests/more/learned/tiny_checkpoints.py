"""Run by the metrics environment's Python: builds tiny random checkpoints and scores with them.

Arguments: a folder, and a file of JSON lines of texts. Writes the checkpoints below the folder, and
`expected.json`: what the packages make of the texts, one by one, with the model that was saved, so
without the scorer's way of loading, batching and ordering.
"""

import json
import shutil
import sys
from pathlib import Path

import sentencepiece
import torch
from bleurt_pytorch import BleurtConfig, BleurtForSequenceClassification, BleurtTokenizer
from comet.models import RegressionMetric, XCOMETMetric
from pytorch_lightning import Trainer
from transformers import XLMRobertaConfig, XLMRobertaTokenizerFast

HIDDEN = 32
# Where the checkpoint says that its encoder lies: nowhere, since the scorer is told another place.
ABSENT = "nobody/no-such-encoder"


def main() -> None:
    folder, texts = Path(sys.argv[1]), Path(sys.argv[2])
    rows = [json.loads(line) for line in texts.read_text("utf-8").split("\n") if line]
    pieces = train_pieces(folder / "pieces", rows)
    encoder = make_encoder(folder / "encoder", pieces)
    expected = {
        "comet": make_comet(folder / "comet", encoder, rows),
        "xcomet": make_xcomet(folder / "xcomet", encoder, rows),
        "bleurt": make_bleurt(folder / "bleurt", pieces, rows),
        "bleurt-wordpiece": make_wordpiece_bleurt(folder / "bleurt-wordpiece", rows),
    }
    (folder / "expected.json").write_text(json.dumps(expected))


def train_pieces(folder: Path, rows: list[dict]) -> Path:
    """A SentencePiece model of the texts."""
    folder.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text for row in rows for text in row.values()] * 20),
        model_prefix=str(folder / "pieces"),
        vocab_size=150,
        hard_vocab_limit=False,
        character_coverage=1.0,
        num_threads=1,
        minloglevel=2,
    )
    return folder / "pieces.model"


def make_encoder(folder: Path, pieces: Path) -> Path:
    """The tokenizer and the configuration of a small XLM-RoBERTa; no weights, as none are read."""
    tokenizer = XLMRobertaTokenizerFast(vocab_file=str(pieces))
    tokenizer.save_pretrained(folder)
    XLMRobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=2 * HIDDEN,
        max_position_embeddings=514,
        type_vocab_size=1,
    ).save_pretrained(folder)
    return folder


def make_comet(folder: Path, encoder: Path, rows: list[dict]) -> list[float]:
    torch.manual_seed(1)
    model = RegressionMetric(
        pretrained_model=str(encoder),
        hidden_sizes=[HIDDEN],
        layer_transformation="sparsemax",
        load_pretrained_weights=False,
        local_files_only=True,
    )
    return save(model, folder, "regression_metric", rows)


def make_xcomet(folder: Path, encoder: Path, rows: list[dict]) -> list[float]:
    torch.manual_seed(2)
    model = XCOMETMetric(
        encoder_model="XLM-RoBERTa",
        pretrained_model=str(encoder),
        hidden_sizes=[HIDDEN],
        word_layer=2,
        load_pretrained_weights=False,
        local_files_only=True,
    )
    with torch.no_grad():
        # Scores above 1 count as 1: well below it they differ.
        model.estimator.ff[-1].bias.fill_(-10)
    return save(model, folder, "xcomet_metric", rows)


def save(model, folder: Path, identifier: str, rows: list[dict]) -> list[float]:
    """Write a COMET checkpoint as Lightning does, and score each row by itself."""
    spread(model)
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "hparams.yaml").write_text(f"class_identifier: {identifier}\n")
    file = folder / "checkpoints" / "model.ckpt"
    trainer = Trainer(max_epochs=0, accelerator="cpu", logger=False, enable_checkpointing=False)
    trainer.strategy.connect(model)
    trainer.save_checkpoint(file, weights_only=True)
    checkpoint = torch.load(file, weights_only=True)
    checkpoint["hyper_parameters"]["pretrained_model"] = ABSENT
    torch.save(checkpoint, file)
    model.eval()
    scores = []
    with torch.inference_mode():
        for row in rows:
            sample = {"src": row["source"], "mt": row["output"], "ref": row["reference"]}
            scores += model.predict_step(model.prepare_for_inference([sample])).scores.tolist()
    return scores


def make_bleurt(folder: Path, pieces: Path, rows: list[dict]) -> list[float]:
    """A BLEURT with SentencePiece tokens, as BLEURT-20 is, in safetensors."""
    folder.mkdir()
    shutil.copy2(pieces, folder / "spm.model")
    return save_bleurt(folder, rows, safe=True)


def make_wordpiece_bleurt(folder: Path, rows: list[dict]) -> list[float]:
    """An early BLEURT, with WordPiece tokens, in a pickle of tensors."""
    folder.mkdir()
    letters = sorted({letter for row in rows for text in row.values() for letter in text.lower()})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens += [*letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", "utf-8")
    return save_bleurt(folder, rows, safe=False)


def save_bleurt(folder: Path, rows: list[dict], safe: bool) -> list[float]:
    torch.manual_seed(3)
    tokenizer = BleurtTokenizer.from_pretrained(folder)
    config = BleurtConfig(
        vocab_size=len(tokenizer),
        embedding_size=16,
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=2 * HIDDEN,
    )
    model = BleurtForSequenceClassification(config).eval()
    spread(model)
    model.save_pretrained(folder, safe_serialization=safe)
    scores = []
    with torch.inference_mode():
        for row in rows:
            # Lists of one: given a text alone, an empty output would not count as a second text.
            texts = ([row["reference"]], [row["output"]])
            inputs = tokenizer(*texts, truncation=True, max_length=512, return_tensors="pt")
            scores.append(model(**inputs).logits.item())
    return scores


def spread(model) -> None:
    """Larger weights than at initialization, so that scores of different texts differ."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(8)


if __name__ == "__main__":
    main()
