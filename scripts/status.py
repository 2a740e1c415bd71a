"""How far a study is: python scripts/status.py [STUDY_FILE], from the repository.

While Snakemake runs, or afterwards. It only reads, but for the page that it writes of the same.
"""

import sys
from datetime import datetime
from pathlib import Path

# The workflow knows where a study's files lie; it belongs to the repository, not to the package.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lexigraft.atomic import replacing
from lexigraft.errors import UserError
from workflow.stages.study import open_study
from workflow.status.summary import as_text, page, status


def main(config: str = "config/config.yaml") -> None:
    study = open_study(config)
    shown = status(study)
    print(as_text(shown))
    file = Path(study.results) / "status" / f"{study.name}.html"
    try:
        with replacing(file) as temporary:
            temporary.write_text(page(shown, datetime.now()), encoding="utf-8")
        print(f"\nAs a page: {file}")
    except OSError as error:
        print(f"\n{file} cannot be written ({error.strerror})")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except UserError as error:
        sys.exit(f"error: {error}")
