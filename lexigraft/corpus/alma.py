"""The prompt of ALMA (Xu et al. 2024), for training and for testing what it trained."""

ENGLISH = "English"


def translation_prompt(source: str, target: str, sentence: str) -> str:
    """Asks for a translation without examples; ends without white space.

    Parameters
    ----------
    source, target
        English names of the languages.
    sentence
        To be translated.
    """
    return f"Translate this from {source} to {target}:\n{source}: {sentence}\n{target}:"
