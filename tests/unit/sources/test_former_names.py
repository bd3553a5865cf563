"""Modules that are gone, as a checkpoint of an earlier version names them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module

import pytest

NAME = "directkafka.sources.gone_for_good"


@pytest.fixture
def forgotten() -> Iterator[None]:
    yield
    sys.modules.pop(NAME, None)


@pytest.mark.usefixtures("forgotten")
def test_a_module_that_is_gone_has_every_name_but_those_of_python_itself() -> None:
    """Hypothesis, for one, asks all modules for their files."""
    module = import_module(NAME)
    assert isinstance(module.Anything(1, name=2), module.Anything)
    for name in ("__file__", "__path__", "__wrapped__"):
        assert not hasattr(module, name)


def test_other_modules_that_are_not_there_stay_so() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("directkafka.nowhere")
