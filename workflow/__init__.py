"""The Python code that plans studies for Snakemake, in addition to the rules.

Most users of Snakemake have a folder `workflow` too: one on the path remains importable.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
