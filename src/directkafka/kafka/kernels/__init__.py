"""Compiled functions: how they are compiled, where they are kept, and the C functions that they call.

numba is imported here as a whole, before its parts, and no other package imports parts of it. Two threads may need
their first kernel at once: one writes a driver's batch, the other looks for the lag. Without the line below:

1. The first thread imports ``numba``, which imports its own parts, one after the other.
2. The second thread imports one of these parts directly. ``numba`` is in ``sys.modules`` by then, so Python does not
   wait for it, and the second thread imports parts as well, in another order.
3. Each thread needs a part that the other one has begun. Python notices that they would wait for each other, and gives
   one of them a module that is not complete. A name that this thread imports from it is missing, and the batch fails.

``import numba`` waits until the other thread has imported all of it.
"""

import numba  # noqa: F401
