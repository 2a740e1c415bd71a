"""The last import of the process that process groups are forked from: it freezes all objects.

Otherwise the garbage collector of each fork visits and thus copies them, a second each time.
"""

import gc

gc.freeze()
