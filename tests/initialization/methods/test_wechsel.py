import numpy as np
import pytest

from lexigraft.auxiliary.language_files import read_dictionary
from lexigraft.auxiliary.word_vectors import align_vectors, read_word_vectors
from lexigraft.errors import UserError
from lexigraft.initialization.registry import initializer
from lexigraft.vocabulary.train import train_tokenizer


@pytest.fixture
def fit(pair, token_vectors):
    """Fit on vectors by vocabulary string: `fit(target, source, **options)`."""

    def build(target, source, **options):
        roles = {"target": token_vectors(pair[1], target), "source": token_vectors(pair[0], source)}
        return initializer("wechsel", **options).fit(*pair, auxiliary=roles)

    return build


def test_weights_are_the_softmax_over_the_nearest_source_tokens(fit, row):
    source = {"x": (3, 4), "y": (1, 0), "z": (4, 3), "w": (-1, 0)}
    fitted = fit({"abc": (2, 0)}, source, neighbours=3, temperature=0.5)
    exponents = np.exp(np.array([0.6, 1, 0.8]) / 0.5)
    expected = dict(zip("xyz", exponents / exponents.sum(), strict=True))
    assert row(fitted, "abc") == pytest.approx(expected, abs=1e-6)


@pytest.mark.bad_input(
    "vectors",
    "vectors of another tokenizer, or of different dimensions",
    "a one-line error message says which",
)
def test_vectors_of_two_widths_are_refused(fit):
    with pytest.raises(UserError, match="2 dimensions for the target and 3 for the source"):
        fit({"abc": (1, 0)}, {"x": (1, 0, 0)})


@pytest.fixture(scope="module")
def words(tmp_path_factory, english, greek, fasttext):
    """fastText vectors of English and of Greek words, and a dictionary that pairs some of them."""
    folder = tmp_path_factory.mktemp("bilingual")
    models = {}
    for name, sentences in (("english", english), ("greek", greek)):
        # One line: its end occurs once and is not counted, which the package would take for a word.
        text = " ".join(" ".join(sentences).lower().split())
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
        models[name] = fasttext.train_unsupervised(
            str(folder / f"{name}.txt"), dim=12, minCount=2, minn=0, maxn=0, thread=1, verbose=0
        )
        assert "</s>" not in models[name].get_words()
        models[name].save_model(str(folder / f"{name}.bin"))
    # All in lower case, so that neither counts any pair more often than another.
    pairs = zip(models["english"].get_words()[:80], models["greek"].get_words()[:80], strict=True)
    lines = [f"{a}\t{b}" for a, b in pairs if a.isalpha() and b.isalpha()]
    (folder / "dictionary.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert len(lines) > 30
    return folder


@pytest.mark.parametrize("family", ["sentencepiece-unigram", "byte-level-bpe"])
def test_on_real_text_rows_equal_the_published_package(
    family, words, smollm2_cut, greek, matrix, fasttext
):
    from wechsel import WECHSEL

    source, target = smollm2_cut, train_tokenizer(greek, family, 800)
    paths = {name: words / f"{name}.bin" for name in ("english", "greek")}
    theirs = WECHSEL(
        *(fasttext.load_model(str(paths[name])) for name in ("english", "greek")),
        bilingual_dictionary=str(words / "dictionary.txt"),
    )
    rows = matrix(len(source), h=6)
    expected, _ = theirs.apply(source, target, rows, use_subword_info=False)

    vectors = read_word_vectors(target, paths["greek"], pooling="frequency")
    pairs = read_dictionary(words / "dictionary.txt")
    aligned, used = align_vectors(vectors, paths["greek"], paths["english"], pairs)
    assert used > 30
    english = read_word_vectors(source, paths["english"], pooling="frequency")
    fitted = initializer("wechsel").fit(
        source, target, auxiliary={"target": aligned, "source": english}
    )

    comparable = _untied(fitted.pair_, aligned, english)
    assert len(comparable) > 60
    found = fitted.apply(rows)
    np.testing.assert_allclose(found[comparable], expected[comparable], atol=1e-3)


def _untied(pair, target, source, neighbours=10):
    """New tokens whose tenth and eleventh neighbour are told apart by more than rounding.

    Tokens of one and the same word have one vector, and which of them is nearer is up to chance.
    """
    tokens = dict(zip(target.tokens.tolist(), target.vectors.astype(float), strict=True))
    held = source.vectors / np.linalg.norm(source.vectors, axis=1, keepdims=True)
    kept = []
    for new in pair.new_ids.tolist():
        if new in tokens:
            cosines = np.sort(held @ tokens[new] / np.linalg.norm(tokens[new]))
            if cosines[-neighbours] - cosines[-neighbours - 1] > 1e-5:
                kept.append(new)
    return kept


def test_ten_neighbours_and_a_temperature_of_a_tenth_are_the_default(fit, row):
    source = {letter: (np.cos(i), np.sin(i)) for i, letter in enumerate("ghijklmnopqr")}
    weights = row(fit({"abc": (1, 0)}, source), "abc")
    assert len(weights) == 10
    assert weights["g"] / weights["h"] == pytest.approx(np.exp((1 - np.cos(1)) / 0.1), rel=1e-4)
