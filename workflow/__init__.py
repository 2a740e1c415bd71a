"""What plans studies for Snakemake, beside the rules.

A folder `workflow` is what most users of Snakemake have, too: one on the path stays importable.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
