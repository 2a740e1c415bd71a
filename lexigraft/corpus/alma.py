"""The prompt of ALMA (Xu et al. 2024), for training and for evaluation."""

ENGLISH = "English"


def translation_prompt(source: str, target: str, sentence: str) -> str:
    """The prompt for a translation without examples; it does not end in white space.

    Parameters
    ----------
    source, target
        English names of the languages.
    sentence
        The sentence to translate.
    """
    return f"Translate this from {source} to {target}:\n{source}: {sentence}\n{target}:"
