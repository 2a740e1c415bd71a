"""Languages and scripts that put no spaces between words: what counts there is the letter."""

LANGUAGES = ("bo", "ja", "km", "lo", "my", "th", "zh")

# Inside the brackets of a regular expression of the package `regex`.
SCRIPTS = "".join(
    rf"\p{{scx={script}}}"
    for script in ("Han", "Hira", "Kana", "Thai", "Laoo", "Khmr", "Mymr", "Tibt")
)
# One letter of these scripts, with the marks on it.
LETTER = rf"(?=\p{{L}})[{SCRIPTS}]\p{{M}}*"
