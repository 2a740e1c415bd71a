import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import save_file
from scipy.special import erf, softmax

from lexigraft.errors import UserError
from lexigraft.initialization.hypernetwork import Hypernetwork
from lexigraft.initialization.registry import initializer

WIDTH, HIDDEN, BETWEEN, MOST = 8, 64, 48, 4


@pytest.fixture(scope="session")
def source(byte_level):
    return byte_level([("a", "b")])


@pytest.fixture(scope="session")
def target(byte_level):
    """New: `abc`, `de`, and `ffffff`, of more pieces than the network reads."""
    return byte_level(
        [("a", "b"), ("ab", "c"), ("d", "e"), ("f", "f"), ("ff", "f"), ("fff", "fff")]
    )


@pytest.fixture(scope="session")
def published(source, tmp_path_factory):
    """Factory of a folder as ZeTT publishes it, its weights drawn: `published(untied=True)`."""

    def build(untied=True, languages=(), **changed):
        folder = tmp_path_factory.mktemp("hypernetwork")
        config = {
            "hn_model_type": "roberta",
            "hn_embed_using_source_embeddings": True,
            "hn_embed_target_priors": False,
            "hn_add_inter_token_attention": False,
            "hn_concat_last_hidden_state": False,
            "hn_rescale_embeddings": True,
            "hn_predict_bias": True,
            "hn_single_head": False,
            "hn_embed_lang_id": bool(languages),
            "langs": list(languages) or ["en", "python"],
            "n_langs": len(languages),
            "n_embd": WIDTH,
            "hn_hidden_size": HIDDEN,
            "hn_intermediate_size": BETWEEN,
            "hn_n_layers": 1,
            "hn_surface_maxlen": MOST,
            "hn_n_extra_tokens": 3,
            "original_vocab_size": len(source) - 1,  # `ab` is none of the source's: an extra one
            "pad_token_id": 1,
            "separate_out_embeddings": untied,
        } | changed
        torch.manual_seed(0)
        weights = {
            name: 0.3 * torch.randn(tensor.shape)
            for name, tensor in Hypernetwork(config).state_dict().items()
        }
        (folder / "config.json").write_text(json.dumps(config))
        save_file(weights, folder / "model.safetensors")
        source.save_pretrained(folder)
        return folder

    return build


@pytest.fixture
def fit(source, target):
    def run(folder, **options):
        return initializer("zett", hypernetwork=str(folder), **options).fit(source, target)

    return run


@pytest.fixture
def matrices(source, matrix):
    return {"input": matrix(len(source), WIDTH), "output": matrix(len(source), WIDTH, seed=1)}


class Reference:
    """The network in numpy, one token at a time, from the weights of a folder."""

    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        weights = load_file(folder / "model.safetensors")
        self.weights = {name: values.astype(np.float64) for name, values in weights.items()}

    def linear(self, name, x):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def normalized(self, name, x, eps):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def block(self, name, x):
        def bend(x):
            return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

        bent = bend(self.linear(f"{name}.dense2", bend(self.linear(f"{name}.dense1", x))))
        return self.normalized(f"{name}.ln", x + bent, 1e-6)

    def scaled(self, name, x):
        return (self.weights[f"{name}.w"] * x + self.weights[f"{name}.b"])[0]

    def rows(self, pieces, source_rows, language=None):
        """Both rows of one token; `source_rows(piece)` are the input and the output row."""
        size, most = self.config["original_vocab_size"], self.config["hn_surface_maxlen"]
        states = [
            self.weights["fallback_embeddings.weight"][piece - size]
            if piece >= size
            else self.scaled("in_scaler", source_rows(piece))
            for piece in pieces[:most]
        ]
        x = self.block("input_projection.1", self.linear("input_projection.0", np.array(states)))
        embeddings = "model.embeddings"
        x = x + self.weights[f"{embeddings}.position_embeddings.weight"][: len(x)]
        x = x + self.weights[f"{embeddings}.token_type_embeddings.weight"][0]
        if language is not None:
            x = np.concatenate([x, self.weights["lang_embeddings.weight"][[language]]])
        x = self.normalized(f"{embeddings}.LayerNorm", x, 1e-5)
        layer = "model.encoder.layer.0"
        query, key, value = (
            self.linear(f"{layer}.attention.self.{part}", x) for part in ("query", "key", "value")
        )
        seen = softmax(query @ key.T / np.sqrt(HIDDEN), axis=-1) @ value  # one head of 64
        seen = self.linear(f"{layer}.attention.output.dense", seen)
        x = self.normalized(f"{layer}.attention.output.LayerNorm", x + seen, 1e-5)
        between = self.linear(f"{layer}.intermediate.dense", x)
        between = between / 2 * (1 + erf(between / np.sqrt(2)))
        between = self.linear(f"{layer}.output.dense", between)
        state = self.normalized(f"{layer}.output.LayerNorm", x + between, 1e-5)[:1]
        made = {}
        for which, name, scale in (
            ("input", "output_projection", "scaler"),
            ("output", "output_projection_out", "out_scaler"),
        ):
            if f"{name}.1.weight" in self.weights:
                out = self.linear(f"{name}.1", self.block(f"{name}.0", state))
                made[which] = self.scaled(scale, out)
        return made


@pytest.mark.parametrize("untied", [True, False])
@pytest.mark.parametrize("language", [None, "te"])
def test_rows_equal_the_predictions_of_the_network(
    untied, language, published, fit, source, matrices
):
    folder = published(untied, languages=["en", "te"] if language else [])
    if not untied:
        del matrices["output"]
    made = fit(folder, language=language).rows(matrices)
    vocabulary, reference = source.get_vocab(), Reference(folder)
    stacked = np.concatenate([matrices[which] for which in sorted(matrices)], axis=1)
    for i, text in enumerate(("abc", "de", "ff", "fff", "ffffff")):
        pieces = ["ab", "c"] if text == "abc" else list(text)
        expected = reference.rows(
            [vocabulary[piece] for piece in pieces],
            stacked.__getitem__,
            None if language is None else 1,
        )
        assert set(expected) == set(matrices)
        for which, row in expected.items():
            np.testing.assert_allclose(made.new[which][i], row, rtol=1e-3, atol=1e-4)


def test_with_special_tokens_shared_only_the_rows_of_all_others_are_predicted(
    published, fit, source, target, matrices
):
    folder = published()
    fitted = fit(folder, shared="special")
    made, some = fitted.rows(matrices), fit(folder).rows(matrices)
    assert made.n_target == len(target) and len(made.new_ids) == len(target) - 1
    ids, reference = source.get_vocab(), Reference(folder)
    stacked = np.concatenate([matrices["input"], matrices["output"]], axis=1)
    for which in matrices:
        rows = made.apply(matrices[which], which)
        a = reference.rows([ids["a"]], stacked.__getitem__)[which]
        np.testing.assert_allclose(rows[target.get_vocab()["a"]], a, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(rows[some.new_ids], some.new[which], rtol=1e-4, atol=1e-5)
        assert np.array_equal(rows[ids["<s>"]], matrices[which][ids["<s>"]])


# What the hub says of benjamin/zett-hypernetwork-xlm-roberta-base and -Mistral-7B-v0.1.
@pytest.mark.parametrize(
    "changed, megabytes",
    [
        (
            {"n_embd": 768, "hn_hidden_size": 768, "hn_intermediate_size": 1536, "n_langs": 26}
            | {"hn_embed_lang_id": True, "separate_out_embeddings": False, "pad_token_id": 1}
            | {"hn_n_extra_tokens": 161, "hn_num_attention_heads": 12},
            82.5,
        ),
        (
            {"n_embd": 4096, "hn_hidden_size": 4096, "hn_intermediate_size": 8192, "n_langs": 7}
            | {"hn_embed_lang_id": False, "separate_out_embeddings": True, "pad_token_id": 2}
            | {"hn_n_extra_tokens": 522, "hn_num_attention_heads": 32},
            2710,
        ),
    ],
)
def test_the_network_has_the_size_of_published_files(changed, megabytes, published):
    config = json.loads((published() / "config.json").read_text())
    with torch.device("meta"):
        network = Hypernetwork(config | {"hn_n_layers": 3} | changed)
    size = 4 * sum(tensor.numel() for tensor in network.state_dict().values())
    assert size / 1e6 == pytest.approx(megabytes, rel=2e-3)


def test_a_model_of_another_width_is_refused(published, fit, matrix, source):
    with pytest.raises(UserError, match="for models of width 8"):
        fit(published(untied=False)).rows({"input": matrix(len(source), 9)})


@pytest.mark.parametrize(
    "changed, language, message",
    [
        ({"hn_model_type": "t5"}, None, "hn_model_type: 't5'"),
        ({"hn_add_inter_token_attention": True}, None, "hn_add_inter_token_attention"),
        ({"n_embd": None}, None, "no number 'n_embd'"),
        ({"original_vocab_size": 999}, None, "a vocabulary of 999"),
        ({}, "te", "'te' is not needed"),
        ({}, "xx", "'xx' is not one of en, te"),
    ],
)
def test_networks_that_do_not_fit_are_refused(changed, language, message, published, fit, matrices):
    folder = published(languages=["en", "te"] if language == "xx" else [])
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changed))
    with pytest.raises(UserError, match=message):
        fit(folder, language=language).rows(matrices)


def test_pickled_weights_are_refused(published, fit):
    folder = published()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="can run code"):
        fit(folder)
