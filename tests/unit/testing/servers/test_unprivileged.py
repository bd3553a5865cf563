"""The user without rights that a server of root's runs as."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from directkafka.testing.servers.unprivileged import Unprivileged

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


@pytest.fixture
def _root_has_groups() -> Iterator[None]:
    """As a login makes them; a container's root often has none."""
    before = os.getgroups()
    os.setgroups([0, 4])
    yield
    os.setgroups(before)


@pytest.mark.usefixtures("_root_has_groups")
def test_no_group_of_root_s_goes_along() -> None:
    other = Unprivileged.choose()
    groups = subprocess.run(["id", "-G"], capture_output=True, text=True, check=True, **other.popen_options).stdout
    assert groups.split() == [str(other.group)]
    assert other.group not in {0, 4, 65534}
