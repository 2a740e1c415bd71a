"""Recipes of expanded vocabularies, from the rows of their new tokens."""

import numpy as np

from lexigraft.initialization.recipe import assemble_recipe


def expansion(rows, new_ids, n_target, source_ids):
    """All rows but the new ones copy the source row of their own id."""
    source_of = np.arange(n_target)
    source_of[new_ids] = -1
    return assemble_recipe(rows, source_of, source_ids)
