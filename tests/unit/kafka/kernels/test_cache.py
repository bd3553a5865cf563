"""Compiled kernels on disk: which folder they are taken from, and what processes do to each other.

The processes of these tests compile a small kernel of a file of its own. That a folder cannot be written is shown
with a file in its place: a test that runs as root may write wherever there is a folder.
"""

import importlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numba import int64
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from tests.warm_numba import Printed, WarmNumba

import directkafka.kafka
import directkafka.payloads
from directkafka.kafka.kernels import cache

PROGRAM = """
from directkafka.kafka.kernels.compile import INT64, helper, kernel

@helper
def twice(number):
    return 2 * number

@kernel(INT64(INT64))
def doubled(number):
    return twice(number)

print(doubled(21), sum(doubled.stats.cache_misses.values()))
"""


class Install:
    """A folder with a kernel's file, and an environment whose folders are all below it."""

    def __init__(self, root: Path, numba: WarmNumba) -> None:
        self.numba = numba
        self.package, self.home, self.temporary = root / "package", root / "home", root / "tmp"
        for folder in (self.package, self.home, self.temporary):
            folder.mkdir()
        (self.package / "doubling.py").write_text(PROGRAM)
        self.pycache = self.package / "__pycache__"
        kept = {name: value for name, value in os.environ.items() if name not in {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"}}
        paths = [str(self.package), *filter(None, sys.path)]
        self.environment = kept | {
            "PYTHONPATH": os.pathsep.join(paths),
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def start(self, **environment: str) -> Printed:
        return self.numba.start("doubling", self.environment | environment)

    def run(self, **environment: str) -> str:
        """What the program printed: its result, and how many kernels were compiled."""
        return self.start(**environment).read()

    def entries(self, folder: Path) -> list[Path]:
        return sorted(folder.rglob("*.nb*")) if folder.is_dir() else []


@pytest.fixture(scope="module")
def numba() -> Iterator[WarmNumba]:
    with WarmNumba() as warm:
        yield warm


@pytest.fixture
def install(tmp_path: Path, numba: WarmNumba) -> Install:
    return Install(tmp_path, numba)


def test_the_second_process_compiles_nothing(install: Install) -> None:
    assert install.run() == "42 1"
    assert len(install.entries(install.pycache)) == 2
    assert install.run() == "42 0"
    assert not install.entries(install.home)
    assert not list(install.temporary.iterdir())


def test_a_process_that_is_started_and_one_that_is_forked_use_the_same_entries(install: Install) -> None:
    """The others of this file are forked."""
    assert install.run() == "42 1"
    command = [sys.executable, "-c", "import doubling"]
    started = subprocess.run(command, env=install.environment, capture_output=True, text=True, check=True, timeout=120)
    assert started.stdout.strip() == "42 0"


def test_the_user_s_folder_is_used_where_the_package_cannot_be_written(install: Install) -> None:
    install.pycache.write_text("not a folder")
    assert install.run() == "42 1"
    assert len(install.entries(install.home)) == 2
    assert install.run() == "42 0"


def test_a_user_without_a_home_gets_a_private_folder(install: Install) -> None:
    install.pycache.write_text("not a folder")
    install.home.rmdir()
    install.home.write_text("not a folder")
    assert install.run() == "42 1"
    (folder,) = install.temporary.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert install.run() == "42 0"


def test_a_private_folder_that_others_may_write_to_is_left_alone(install: Install) -> None:
    install.pycache.write_text("not a folder")
    install.home.rmdir()
    install.home.write_text("not a folder")
    install.run()
    (folder,) = install.temporary.iterdir()
    folder.chmod(0o777)
    assert install.run() == "42 1"
    folder.chmod(0o700)
    assert install.run() == "42 0"


@pytest.mark.parametrize("shared", ["home", "chosen"])
def test_a_folder_below_one_in_which_others_may_write_is_left_alone_unless_it_is_sticky(
    install: Install, tmp_path: Path, shared: str
) -> None:
    """As ``/tmp`` is sticky: nobody can put a folder of his own in the place of ours."""
    folder = tmp_path / shared
    folder.mkdir(exist_ok=True)
    install.pycache.write_text("not a folder")
    chosen = {"NUMBA_CACHE_DIR": str(folder / "numba")} if shared == "chosen" else {}
    assert install.run(**chosen) == "42 1"
    assert len(install.entries(folder)) == 2
    # The other places cannot be used.
    (install.temporary / cache.PRIVATE_NAME).write_text("not a folder")
    if shared == "chosen":
        install.home.rename(tmp_path / "elsewhere")
    folder.chmod(0o777)
    assert install.run(**chosen) == "42 1"
    folder.chmod(0o1777)
    assert install.run(**chosen) == "42 0"


def test_a_folder_that_another_user_has_made_is_left_alone(install: Install) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make folders of another user")
    install.pycache.write_text("not a folder")
    install.run()
    os.chown(install.home, 12345, 12345)
    assert install.run() == "42 1", "the private folder takes it"
    assert install.run() == "42 0"


def test_a_link_is_followed_before_its_folder_is_looked_at(install: Install, tmp_path: Path) -> None:
    chosen, link = tmp_path / "chosen", tmp_path / "link"
    chosen.mkdir()
    link.symlink_to(chosen)
    assert install.run(NUMBA_CACHE_DIR=str(link)) == "42 1"
    assert install.run(NUMBA_CACHE_DIR=str(link)) == "42 0"
    (chosen / "directkafka-kernels").chmod(0o777)
    assert install.run(NUMBA_CACHE_DIR=str(link)) == "42 1"


def test_a_read_only_install_that_brings_its_cache_compiles_nothing(install: Install) -> None:
    install.run()
    before = install.entries(install.pycache)
    install.pycache.chmod(0o555)
    install.package.chmod(0o555)
    try:
        assert install.run() == "42 0"
        assert install.entries(install.pycache) == before
        assert not install.entries(install.home)
    finally:
        install.package.chmod(0o755)
        install.pycache.chmod(0o755)


def test_a_process_that_may_write_nowhere_compiles_without_a_cache(install: Install) -> None:
    install.pycache.write_text("not a folder")
    install.home.rmdir()
    install.home.write_text("not a folder")
    path = install.temporary / cache.PRIVATE_NAME
    path.write_text("not a folder")
    assert install.run() == "42 1"
    assert install.run() == "42 1"


def test_a_folder_of_one_s_own_choice_comes_first(install: Install, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen"
    assert install.run(NUMBA_CACHE_DIR=str(chosen)) == "42 1"
    assert len(install.entries(chosen)) == 2
    assert not install.entries(install.pycache)
    assert install.run(NUMBA_CACHE_DIR=str(chosen)) == "42 0"


def test_eight_processes_that_start_at_once_with_an_empty_cache_do_not_disturb_each_other(install: Install) -> None:
    processes = [install.start() for _ in range(8)]
    assert all(process.read() in {"42 0", "42 1"} for process in processes)
    assert len(install.entries(install.pycache)) == 2, "no temporary file is left"
    assert install.run() == "42 0"


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize(
    "content",
    [b"\x80\x05garbage", pytest.param(b"", marks=pytest.mark.slow), pytest.param(None, marks=pytest.mark.slow)],
)
def test_an_entry_that_is_damaged_is_compiled_anew_and_replaced(
    install: Install, suffix: str, content: bytes | None
) -> None:
    install.run()
    (entry,) = install.pycache.glob(f"*.{suffix}")
    entry.write_bytes(entry.read_bytes()[:-20] if content is None else content)
    assert install.run() == "42 1"
    assert install.run() == "42 0"


def test_a_file_that_changes_makes_its_kernels_compile_anew(install: Install) -> None:
    install.run()
    (install.package / "doubling.py").write_text(PROGRAM.replace("2 * number", "3 * number"))
    assert install.run() == "63 1"


def test_checked_and_unchecked_code_are_kept_apart(install: Install) -> None:
    assert install.run() == "42 1"
    assert install.run(NUMBA_BOUNDSCHECK="1") == "42 1"
    assert install.run() == "42 0"
    assert len(install.entries(install.pycache)) == 4


def test_every_file_that_is_compiled_into_kernels_of_others_counts_for_their_names() -> None:
    compiled = {
        name.removeprefix("directkafka.")
        for package in (directkafka.kafka, directkafka.payloads)
        for _, name, _ in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if any(comes_from(value, name) for value in vars(importlib.import_module(name)).values())
    }
    assert len(compiled) > 7
    own = {
        "kafka.producer.partitioner",
        "kafka.records.decode_kernel",
        "payloads.avro.kernels.read_records",
        "payloads.json.kernels.read_texts",
        "payloads.protobuf.kernels.read_records",
    }
    assert compiled - own <= set(cache.COMPILED)


def comes_from(value: Any, module: str) -> bool:
    if isinstance(value, Dispatcher | type(intrinsic(lambda context: None))):
        return bool(value.__module__ == module)
    return False


def test_a_program_that_compiles_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(cache, "cache_folders", lambda _: [tmp_path])
    cache._log_compiling.cache_clear()
    with caplog.at_level("INFO", logger="directkafka"):
        for _ in range(2):
            assert cache.KernelCache(len_of).load_overload(int64(int64), cpu_target.target_context) is None
    assert [record.getMessage()[:17] for record in caplog.records] == ["compiling kernels"]


def len_of(number: int) -> int:
    return number
