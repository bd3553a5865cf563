"""The one folder outside the checkout that directkafka writes to and keeps.

Everything that is costly to fetch lies here: the broker's jars, Ivy's own files, pip's cache. Nothing in it is
precious; deleting it costs a download.
"""

from __future__ import annotations

import os
from pathlib import Path

ENVIRONMENT_NAME = "DIRECTKAFKA_CACHE"


def cache_folder() -> Path:
    """The cache folder, made if it is not there.

    It is ``DIRECTKAFKA_CACHE`` where that is set, else ``~/.cache/directkafka``. The Makefile gives pip the
    subfolder ``pip``.

    Returns:
        An absolute path.
    """
    chosen = os.environ.get(ENVIRONMENT_NAME) or "~/.cache/directkafka"
    folder = Path(chosen).expanduser().absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder
