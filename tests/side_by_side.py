"""How test files are given to workers that run side by side.

Each worker of pytest-xdist that gets a test with Spark starts a Spark of its own, which takes 20 s of processor time
before it is quick. Such tests take some two fifths of a run's time. So one half of the workers begins with them, and
the other half with the long ones that need no Spark. They meet at the short ones, so that no worker is left alone with
a long file.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.workermanage import WorkerController

_SHORT = {"unit", "properties"}
#: Tests right below these folders start drivers or programs of their own, and take longest.
_LONG = {("real",), ("chaos",)}


def sort_by_file(items: list[pytest.Item], *, tests: str) -> None:
    """Sort files into four groups: those with Spark, short ones, others, long ones without Spark.

    The order within a group stays.

    Args:
        items: what was collected, sorted in place.
        tests: the folder of all tests.
    """
    with_spark = {item.path for item in items if "spark" in _fixtures(item)}

    def rank(item: pytest.Item) -> int:
        folders = item.path.relative_to(tests).parts[:-1]
        if item.path in with_spark:
            return 0
        if folders[0] in _SHORT:
            return 1
        return 3 if folders in _LONG else 2

    items.sort(key=rank)


def _fixtures(item: pytest.Item) -> Iterable[str]:
    return getattr(item, "fixturenames", ())


class FromBothEnds(LoadFileScheduling):
    """The first half of the workers that are there takes files from the beginning, the other half from the end."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node in self.nodes[(len(self.nodes) + 1) // 2 :]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        # The worker may have ended, and its end not be heard of yet: then what it was given is queued again.
        with suppress(OSError):
            super()._assign_work_unit(node)

    def schedule(self) -> None:
        """Give a worker that joins later two files: a worker runs a test only when it has the next one, or the end."""
        is_later = self.collection is not None
        super().schedule()
        if is_later:
            for node in self.nodes:
                self._reschedule(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Give nothing to a worker that has joined and has not said which tests it knows."""
        if node in self.registered_collections:
            super()._reschedule(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Queue only what a worker that has ended had not done yet, without the test under which it ended.

        xdist queues all its files again, done ones too. A new worker that is given a done file never asks for more, so
        the run stands still. The test under which the old one ended would end the new one too.
        """
        units = self.assigned_work[node]
        unfinished = next(
            ((unit, test) for unit in units.values() for test, is_done in unit.items() if not is_done), None
        )
        if unfinished is None:
            return super().remove_node(node)
        unit, test = unfinished
        unit[test] = True
        self.assigned_work[node] = {name: unit for name, unit in units.items() if not all(unit.values())}
        super().remove_node(node)
        return test
