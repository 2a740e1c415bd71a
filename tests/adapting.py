"""Requests to `lexigraft adapt`: generated sentences, and the command line."""

import random

from typer.testing import CliRunner

from lexigraft.commands.app import app
from lexigraft.errors import UserError

SENTENCES = 900
GEORGIAN = """
    აქ ბავშვი ბებია ბიჭი გოგო გუშინ გზა დედა დიდი დღეს ენა ერთი ვაშლი ზამთარი ზღვა თბილისი თეთრი
    თოვლი იქ ის ისინი კარგი კატა კაცი ლამაზი მამა მდინარე მეგობარი მე მზე მთა მოვიდა მუშაობს მწვანე
    ნახა ორი პატარა პური ქალაქი ქალი ქვა ღამე ყვავილი ყოველთვის შავი შენ ჩემი ცა წავიდა წერს წიგნი
    წითელი წყალი ჭამს ხე ხვალ ხილი ჰგავს
"""


def sentences_of(words: list[str], sentences: int = SENTENCES) -> list[str]:
    rng = random.Random(1)
    return [" ".join(rng.choices(words, k=rng.randint(5, 11))) for _ in range(sentences)]


def write_texts(folder, english):
    """Write the sentences to adapt to as ka.txt, and English ones as en.txt, into the folder."""
    (folder / "ka.txt").write_text("\n".join(sentences_of(GEORGIAN.split())), encoding="utf-8")
    (folder / "en.txt").write_text("\n".join(english[:20]), encoding="utf-8")
    return folder


def arguments(files, model, *options) -> list[str]:
    given = [
        "adapt", "--model", model, "--text", files / "ka.txt", "--english", files / "en.txt",
        "--tokens", 3000, "--new-tokens", 60, "--cores", 2, *options,
    ]  # fmt: skip
    return [str(one) for one in given]


def adapt(files, model, out, *options):
    """The result of the command; a UserError is raised as it is."""
    result = CliRunner().invoke(app, arguments(files, model, "--out", out, *options))
    if isinstance(result.exception, UserError):
        raise result.exception
    return result
