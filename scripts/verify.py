"""Hashes every file that cards tell of, and names those that are damaged or missing.

By hand: `python scripts/verify.py results .cache/packages`, or `make verify`.
"""

import os
import sys

from tqdm import tqdm

from lexigraft.errors import UserError
from lexigraft.verification import verify


def main(folders: list[str]) -> int:
    with tqdm(unit="B", unit_scale=True, desc="hashing", disable=None) as progress:
        found = verify(*folders, threads=min(8, os.cpu_count() or 1), advance=progress.update)
    for fault in found.faults:
        print(f"{fault.file}: {fault.what}")
    for folder in found.unfinished:
        print(f"{folder}: unfinished; an earlier run ended here, and the next one does it again")
    hashed = f"{found.files} files in {found.folders} folders, {found.bytes / 1e9:.1f} GB"
    print(f"{hashed}: {len(found.faults)} damaged or missing")
    if found.faults:
        print("Restore them, or delete these folders and run again, which makes them anew:")
        for folder in sorted({fault.folder for fault in found.faults}):
            print(f"  {folder}")
    return 1 if found.faults else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:] or ["results"]))
    except UserError as error:
        raise SystemExit(f"error: {error}") from None
