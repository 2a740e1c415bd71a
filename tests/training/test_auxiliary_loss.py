"""The auxiliary loss is added once a step, however many passes and targets the step has."""

from types import SimpleNamespace

import pytest
import torch

from lexigraft.training.objective import Objective
from lexigraft.training.vocadt_adapter import WithAuxiliaryLoss


class Two(Objective):
    loss_names = ("first_loss", "second_loss")

    def count_targets(self, batch):
        return torch.tensor([3, 2])

    def losses(self, model, inputs, weights=None):
        return torch.tensor([6.0, 1.0])


class One(Two):
    loss_names = ()

    def count_targets(self, batch):
        return torch.tensor([3])

    def losses(self, model, inputs, weights=None):
        return torch.tensor([6.0])


@pytest.fixture
def adapters():
    return [SimpleNamespace(drift=lambda far=far: torch.tensor(far)) for far in (0.5, 0.25)]


def test_parts_targets_and_losses_gain_one(adapters):
    objective = WithAuxiliaryLoss(Two(), adapters, alpha=0.1)
    assert objective.loss_names == ("first_loss", "second_loss", "aux_loss")
    assert objective.count_targets({}).tolist() == [3, 2, 1]
    assert objective.losses(None, {}).tolist() == pytest.approx([6, 1, 0.1 * 0.75])


def test_an_objective_of_one_part_gets_a_name(adapters):
    assert WithAuxiliaryLoss(One(), adapters, alpha=0.1).loss_names == ("lm_loss", "aux_loss")


def test_it_counts_once_whatever_the_number_of_passes(adapters):
    objective = WithAuxiliaryLoss(One(), adapters, alpha=0.1)
    for passes in (1, 4):
        targets = torch.stack([objective.count_targets({}) for _ in range(passes)]).sum(0)
        losses = torch.stack([objective.losses(None, {}) for _ in range(passes)]).sum(0)
        assert (losses / targets).tolist() == pytest.approx([2, 0.075])


def test_each_adapter_is_held_as_equation_4_holds_one():
    drifts = [torch.tensor(far, requires_grad=True) for far in (0.5, 0.3)]
    both = [SimpleNamespace(drift=lambda far=far: far) for far in drifts]
    loss = WithAuxiliaryLoss(One(), both, alpha=0.1).penalty(None)
    loss.backward()
    assert loss.item() == pytest.approx(0.1 * 0.5 + 0.1 * 0.3)
    assert [far.grad.item() for far in drifts] == pytest.approx([0.1, 0.1])
