"""The maker of ``docs/reference/`` and of parts of ``docs/DESIGN.md``, so that they cannot differ from the code.

``make docs`` runs it; ``tests/unit/test_docs.py`` makes the pages anew in memory and compares.
"""
