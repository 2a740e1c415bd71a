"""Scores of real tasks of the harness on local rows, held against the harness called by hand."""

import pytest
import torch

# Task, its folder in the harness, and examples before each question.
TASKS = [("xnli_de", "xnli", 0), ("arc_de", "okapi/arc_multilingual", 1), ("xcopa_sw", "xcopa", 2),
         ("xcopa", "xcopa", 0), ("xwinograd_jp", "xwinograd", 0)]  # fmt: skip
SEED = 7


def everything(task, count):
    return None


@pytest.fixture
def scored(answering, prepared):
    """`scored(task, folder, shots)`: what the cell's model scores."""
    from lexigraft.evaluation.harness.scoring import CellModel, score

    def run(task, folder, shots, draw=everything, by_length=False):
        model = CellModel(*answering, batch_size=3)
        options = {"by_length": by_length, "seed": SEED, "draw": draw}
        return score(model, prepared(task, folder), shots=shots, **options)

    return run


@pytest.mark.parametrize(("task", "folder", "shots"), TASKS)
def test_a_cell_scores_what_the_harness_gives_it_by_hand(
    task, folder, shots, scored, answering, by_hand
):
    options = {"batch_size": 2, "num_fewshot": shots, "fewshot_random_seed": SEED}
    expected = by_hand(*answering, task, folder, **options)
    found = scored(task, folder, shots)
    result = expected["results"][task]
    assert found[0]["acc"] == pytest.approx(result["acc,none"], abs=0)
    assert found[0].get("acc_norm") == result.get("acc_norm,none")
    samples = [sample for name in expected["samples"] for sample in expected["samples"][name]]
    assert len(found[1]) == len(samples) > 0
    for row, sample in zip(found[1], samples, strict=True):
        theirs = [value for value, _ in sample["filtered_resps"]]
        assert row["loglikelihoods"] == pytest.approx(theirs, rel=1e-5)
        texts = [context + ending for context, ending in sample["arguments"]]
        assert [row["prompt"] + choice for choice in row["choices"]] == texts
        assert row["acc"] == sample["acc"]
    assert found[2]["versions"] == {
        name: expected["versions"][name] for name in expected["samples"]
    }
    assert set(found[2]["shots"].values()) == {shots}


@pytest.mark.fault(
    "machine",
    "GPU memory runs out while texts are generated or scored",
    "batches are halved; texts and scores are the same",
)
def test_batches_that_do_not_fit_into_memory_are_halved(answering, prepared, monkeypatch):
    from lexigraft.evaluation.harness.scoring import HFLM, CellModel, score

    call, seen = HFLM._model_call, []

    def limited(self, inps, *rest, **named):
        seen.append(len(inps))
        if len(inps) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return call(self, inps, *rest, **named)

    def run(most):
        model = CellModel(*answering, batch_size=most)
        folder_of_task = prepared("arc_de", "okapi/arc_multilingual")
        options = {"shots": 0, "by_length": False, "seed": SEED, "draw": everything}
        return score(model, folder_of_task, **options)

    whole = run(2)
    monkeypatch.setattr(HFLM, "_model_call", limited)
    assert run(None) == whole
    assert seen[0] == 8 and seen == sorted(seen, reverse=True) and seen[-6:] == 6 * [2]


def test_a_tokenizer_with_neither_bos_nor_eos_is_scored(special_tokenizer, tiny_llama):
    """On which the harness itself fails."""
    from lm_eval.api.instance import Instance

    from lexigraft.evaluation.harness.scoring import CellModel

    bare, model = special_tokenizer(), tiny_llama(300)
    scored = CellModel(model, bare, batch_size=1)
    [(found, _)] = scored.loglikelihood([Instance("loglikelihood", {}, ("one", " two"), 0)])
    question, both = (bare(text)["input_ids"] for text in ("one", "one two"))
    with torch.no_grad():
        logits = model(torch.tensor([both])).logits[0].log_softmax(-1)
    expected = sum(logits[at - 1, both[at]].item() for at in range(len(question), len(both)))
    assert found == pytest.approx(expected, rel=1e-5)
