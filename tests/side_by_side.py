"""How files are dealt out where several go side by side.

Each worker of pytest-xdist that meets a test with Spark starts a Spark of its own, which takes 20 s of processor time
before it is quick. Such tests are some two fifths of a run. So one half of the workers begins with them, and the other
half with tests that run whole programs or use other servers. They meet at the short ones, so that no worker is left
alone with a long file.
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
#: Tests right below these folders run whole programs.
_PROGRAMS = {("real",), ("chaos",)}


def sort_by_file(items: list[pytest.Item], *, tests: str) -> None:
    """Put files that use this process's Spark first, then short ones, then those of other servers, programs last.

    Within each of the four the order stays.

    Args:
        items: what was collected, sorted in place.
        tests: the folder below which folders are looked at.
    """
    with_spark = {item.path for item in items if "spark" in _fixtures(item)}

    def rank(item: pytest.Item) -> int:
        folders = item.path.relative_to(tests).parts[:-1]
        if item.path in with_spark:
            return 0
        if folders[0] in _SHORT:
            return 1
        return 3 if folders in _PROGRAMS else 2

    items.sort(key=rank)


def _fixtures(item: pytest.Item) -> Iterable[str]:
    return getattr(item, "fixturenames", ())


class FromBothEnds(LoadFileScheduling):
    """One half of the workers takes files from the beginning, the other half from the end."""

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
        """Leave out a worker that joins, and does not know the tests yet."""
        if node in self.registered_collections:
            super()._reschedule(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Leave out what a worker that has ended had done, and the test under which it ended.

        xdist queues all its files again, done ones too. A new worker that is given a done file never asks for more, so
        the run stands still. The test under which the old one ended would end the new one too.
        """
        units = self.assigned_work[node]
        running = next(((unit, test) for unit in units.values() for test, is_done in unit.items() if not is_done), None)
        if running is None:
            return super().remove_node(node)
        unit, test = running
        unit[test] = True
        self.assigned_work[node] = {name: unit for name, unit in units.items() if not all(unit.values())}
        super().remove_node(node)
        return test
