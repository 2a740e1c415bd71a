"""Rule score_predictions: a learned metric on the predictions of many evaluation runs."""

from lexigraft.completion import card_of
from lexigraft.evaluation.learned.scoring import score_predictions, with_predictions
from lexigraft.job import Job, run
from lexigraft.provenance import write_card


def stage(job: Job) -> None:
    write_card(card_of(job), job, score_predictions(with_predictions(job)))


if __name__ == "__main__":
    run(stage, expand=with_predictions)
