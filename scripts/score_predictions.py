"""Rule score_predictions: a learned metric on the predictions of many evaluation runs."""

from lexigraft.evaluation.learned.scoring import score_predictions, with_predictions
from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    return score_predictions(with_predictions(job)), {}


if __name__ == "__main__":
    run(stage, expand=with_predictions)
