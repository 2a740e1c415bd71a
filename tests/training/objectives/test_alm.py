"""Likelihood matching: its loss and gradients by brute force, and which models can teach."""

from itertools import accumulate, pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.inference import chunked_logits as chunked_module
from lexigraft.inference.text_encoding import encode
from lexigraft.training.data import SequenceDataset, collate, concatenate, pack
from lexigraft.training.objectives.alm import AlmSettings, LikelihoodMatching, matching
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.settings import read_strategy
from lexigraft.training.teacher import Teacher
from lexigraft.vocabulary.token_bytes import token_bytes
from tests.training.objectives.conftest import MOST


@pytest.fixture
def teacher(tiny_llama):
    """Sure of itself."""
    model = tiny_llama(320, tied=False, seed=5).requires_grad_(False)
    model.lm_head.weight.data *= 20
    return model


@pytest.fixture
def batch(sequences):
    made = collate(sequences)
    return lambda: dict(made)


def log_probabilities(model, ids):
    """Of each token of one sequence after those before it, the first one left out."""
    scores = model(torch.tensor(ids)[None]).logits[0].double().log_softmax(-1)
    return scores[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]


def by_brute_force(model, teacher, target, source, sequences, temperature):
    """The loss summed over chunks and their number, from whole logits and all spans of bytes.

    The bytes of a sequence, less cut characters, are read by the teacher as text; chunks are pairs
    of spans without a shorter one inside.
    """
    pieces, teacher_pieces, end = token_bytes(target), token_bytes(source), source.eos_token_id
    total, count = 0.0, 0
    for sequence in sequences:
        ids = sequence.tokens.tolist()
        counted = np.ones(len(ids), bool) if sequence.targets is None else sequence.targets
        data = b"".join(pieces[token] for token in ids)
        offsets = list(accumulate((len(pieces[token]) for token in ids), initial=0))
        cut = len(data) - len(data.lstrip(bytes(range(0x80, 0xC0))))
        mark = pieces[target.eos_token_id].decode()
        begins_inside = ids[0] != target.eos_token_id
        read = [end] if begins_inside else []
        for number, text in enumerate(data[cut:].decode(errors="ignore").split(mark)):
            read += [end] * (number > 0) + source(text)["input_ids"]
        read = read[:MOST]
        sizes = [len(teacher_pieces[token]) for token in read]
        sizes[0] = 0 if begins_inside else sizes[0]
        teacher_offsets = list(accumulate(sizes, initial=cut))
        scores, teacher_scores = log_probabilities(model, ids), log_probabilities(teacher, read)
        for begin, stop in pairwise(sorted(set(offsets) & set(teacher_offsets))):
            inside = [n for n in range(len(ids)) if begin < offsets[n + 1] <= stop]
            if inside[0] == 0 or not counted[inside].all():
                continue
            count += 1
            log_q = sum(scores[n - 1] for n in inside)
            log_p = sum(
                teacher_scores[n - 1]
                for n in range(len(read))
                if begin < teacher_offsets[n + 1] <= stop
            )
            p, q = ((score / temperature - 1e-6).exp() for score in (log_p, log_q))
            total = total - p * q.log() - (1 - p) * (1 - q).log()
    return total, count


@pytest.mark.parametrize(
    ("chunk", "temperature"), [(1, 1.0), (10_000, 100.0)], ids=["position by position", "at once"]
)
def test_loss_and_gradients_are_those_of_all_spans(
    tiny_llama, teacher, target, without_bos, sequences, batch, monkeypatch, chunk, temperature
):
    monkeypatch.setitem(chunked_module.CHUNK_LOGITS, "cpu", chunk * 380)
    model = tiny_llama(380, tied=False)
    objective = LikelihoodMatching(teacher, AlmSettings(temperature=temperature), MOST)
    counts = objective.count_targets(batch())
    expected, count = by_brute_force(model, teacher, target, without_bos, sequences, temperature)
    assert counts[1] == count > 40
    losses = objective.losses(model, batch())
    assert losses[1].item() == pytest.approx(expected.item(), rel=1e-4)
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(losses[1], parameters)
    for gradient, exact in zip(gradients, torch.autograd.grad(expected, parameters), strict=True):
        assert torch.allclose(gradient, exact, rtol=1e-3, atol=1e-5 * exact.abs().max())


@pytest.mark.parametrize("peers", [False, True], ids=["in place", "by autograd"])
def test_one_backward_pass_has_the_gradients_of_both_parts(
    tiny_llama, teacher, batch, monkeypatch, peers
):
    """A process alone adds gradients in place, and both go on with those of an earlier pass."""
    monkeypatch.setattr(chunked_module, "_has_peers", lambda: peers)
    weights = [0.5, 3.0]
    model = tiny_llama(380, tied=False)
    alone = LikelihoodMatching(teacher, AlmSettings(), MOST)
    apart = torch.stack(
        [CausalModeling().losses(model, batch())[0], alone.losses(model, batch())[1]]
    )
    (2 * (torch.tensor(weights) * apart).sum()).backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    objective = LikelihoodMatching(teacher, AlmSettings(weight=7.0, next_weight=weights[0]), MOST)
    # Of a step: the parts have different numbers of targets.
    for _ in range(2):
        losses = objective.losses(model, batch(), torch.tensor(weights))
        (torch.tensor(weights) * losses).sum().backward()
    assert torch.allclose(losses, apart, rtol=1e-5)
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter.grad, expected[name], rtol=1e-4, atol=1e-4), name


def test_matching_is_the_binary_cross_entropy():
    p, q = torch.tensor([0.5, 0.25]).log(), torch.tensor([0.5, 0.75]).log()
    expected = [np.log(2), 0.25 * np.log(4 / 3) + 0.75 * np.log(4)]
    assert matching(p, q, 1.0).tolist() == pytest.approx(expected, rel=1e-4)


def test_certain_and_impossible_texts_have_finite_losses_and_gradients():
    taught = torch.tensor([0.0, 0.0, -1e4, -1e4])
    ours = torch.tensor([0.0, -1e4, 0.0, -1e4], requires_grad=True)
    for temperature in (0.5, 100.0):
        losses = matching(taught, ours, temperature)
        [slope] = torch.autograd.grad(losses.sum(), ours)
        assert losses.isfinite().all() and slope.isfinite().all() and (losses >= 0).all()


def test_a_process_without_a_sequence_has_no_chunks(tiny_llama, teacher):
    model = tiny_llama(380, tied=False)
    objective = LikelihoodMatching(teacher, AlmSettings(), MOST)
    assert objective.count_targets(collate([])).tolist() == [0, 0]
    losses = objective.losses(model, collate([]))
    objective.total(losses).backward()
    assert losses.tolist() == [0, 0] and not model.lm_head.weight.grad.any()


def alm(**given):
    return read_strategy(
        {"phases": [{"objective": "alm", "trainable": ["all"], "length": 32, **given}]}
    )


def test_a_teacher_reads_at_most_four_times_the_length_or_its_context(tiny_llama):
    config, length_for = tiny_llama(10).config, LikelihoodMatching.length_for
    lengths = {32: 128, 100: 400, 200: 512}
    assert {n: length_for(alm(length=n).phases[0], config) for n in lengths} == lengths
    config.max_position_embeddings = -1  # without a limit
    assert length_for(alm(length=200).phases[0], config) == 800


def test_a_teacher_with_a_short_context_is_refused(teacher_folder, without_bos):
    with pytest.raises(
        UserError, match=r"alm\.teacher: the context of large is 512 tokens, but .* has 513"
    ):
        LikelihoodMatching.check_inputs({"teacher": teacher_folder()}, without_bos, alm(length=513))
    LikelihoodMatching.check_inputs({"teacher": teacher_folder()}, without_bos, alm(length=512))


def test_tokenizers_without_a_common_boundary_are_refused(teacher_folder, byte_tokenizer, telugu):
    own = byte_tokenizer()
    phase = alm().phases[0]
    context = SimpleNamespace(phase=phase, tokenizer=own, teacher=Teacher(teacher_folder()))

    def dataset(tokens):
        return SequenceDataset(pack(concatenate([tokens]), 32), np.arange(2))

    never = own.convert_tokens_to_ids("À")  # a byte that no UTF-8 has
    with pytest.raises(UserError, match=r"alm\.teacher: the tokens of large and of the cell"):
        LikelihoodMatching.prepare_data(dataset([own.eos_token_id, *[never] * 63]), context, [])
    texts = dataset(next(encode(own, [telugu[0]])))
    assert LikelihoodMatching.prepare_data(texts, context, [])[0].teacher is not None
