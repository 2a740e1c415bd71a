"""The last that the process imports from which crews are forked: what it has imported stays.

Else each fork's collector of garbage goes over all of that, and copies it: a second each time.
"""

import gc

gc.freeze()
