"""Two threads of a driver that need their first kernel at once."""

import subprocess
import sys

import pytest

PROGRAM = """
import importlib
import sys
import threading
import time

errors = []


def waits(thread):
    frame = sys._current_frames().get(thread.ident)
    where = frame and (frame.f_code.co_filename, frame.f_code.co_name)
    return where == ("<frozen importlib._bootstrap>", "acquire")


def hold(event, arguments):
    if event != "import" or arguments[0] != sys.argv[1] or threading.current_thread() is not first or second.ident:
        return
    second.start()
    while second.is_alive() and not waits(second):
        time.sleep(0.01)


def imports(name):
    try:
        importlib.import_module(name)
    except Exception as error:
        errors.append(error)


first = threading.Thread(target=imports, args=["directkafka.kafka.compression.lz4"])
second = threading.Thread(target=imports, args=["directkafka.kafka.kernels.addresses"])
sys.addaudithook(hold)
first.start()
first.join()
second.join()
print(*errors, sep="\\n", end="")
"""


@pytest.mark.parametrize("module", ["numba.core", "numba.np", "numba.core.cgutils"])
def test_two_threads_may_need_their_first_kernel_at_once(module: str) -> None:
    """The first is held within numba, before that module, until the second waits for an import or has ended."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, module], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
