"""Languages and scripts without spaces between words, in which letters are compared."""

UNSPACED_LANGUAGES = ("bo", "ja", "km", "lo", "my", "th", "zh")
# Three-letter codes of the same languages, which settings reject in favour of the short ones.
LONG_CODES = {
    "bod": "bo", "tib": "bo", "jpn": "ja", "khm": "km", "lao": "lo", "bur": "my", "mya": "my",
    "tha": "th", "chi": "zh", "cmn": "zh", "zho": "zh",
}  # fmt: skip
UNSPACED_SCRIPTS = "".join(
    rf"\p{{scx={script}}}"
    for script in ("Han", "Hira", "Kana", "Thai", "Laoo", "Khmr", "Mymr", "Tibt")
)
UNSPACED_LETTER = rf"(?=\p{{L}})[{UNSPACED_SCRIPTS}]\p{{M}}*"  # with its marks
