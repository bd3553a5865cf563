"""Compiled functions: how they are compiled, where they are kept, and the C functions that they call.

Import ``numba`` before any of its parts, in each module that uses parts. Two threads may need their first kernel at
once: one writes a driver's batch, the other looks for the lag. Without that line:

1. The first thread imports ``numba``, which imports its own parts, one after the other.
2. The second thread imports one of these parts directly. ``numba`` is in ``sys.modules`` by then, so Python does not
   wait for it, and the second thread imports parts as well, in another order.
3. Each thread needs a part that the other one has begun. Python notices that they would wait for each other. It raises
   an error in one of them, or gives it a module that is not complete, and a name is missing.

``import numba`` waits until the other thread has imported all of it. The line in this file would not do: this package,
too, is in ``sys.modules`` while it is being imported.
"""
