"""Compiled functions: how they are compiled, where they are kept, and the C functions that they call.

numba is imported here, before any of its parts, and all modules that use its parts are in this package. Two threads
may need their first kernel at once, a driver's batch and the look for its lag. Without this line:

1. One thread imports ``numba``, which begins to import ``numba.core``.
2. The other thread imports ``numba.core.cgutils`` directly: it holds the import locks of ``numba.core`` and of
   ``numba.core.cgutils``, and waits for ``numba``.
3. Each thread waits for the other now. Python notices it and gives one of them a module of which half is there; what
   that one imports from it is missing, and the batch fails.
"""

import numba  # noqa: F401
