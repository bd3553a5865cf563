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


first, second = (threading.Thread(target=imports, args=["directkafka.kafka." + name]) for name in sys.argv[2:])
sys.addaudithook(hold)
first.start()
first.join()
second.join()
print(*errors, sep="\\n", end="")
"""


@pytest.mark.parametrize(
    ("module", "first", "second"),
    [
        ("numba.core", "compression.lz4", "kernels.addresses"),
        ("numba.core.cgutils", "compression.lz4", "kernels.addresses"),
        ("numba.np", "compression.lz4", "kernels.addresses"),
        ("numba.np", "kernels.addresses", "kernels.compile"),
        ("numba.np", "kernels.compile", "kernels.addresses"),
        ("numba.np", "kernels.c_functions", "kernels.addresses"),
    ],
)
def test_two_threads_may_need_their_first_kernel_at_once(module: str, first: str, second: str) -> None:
    """The first thread pauses before it imports ``module``, until the second waits for an import lock or ends."""
    arguments = [sys.executable, "-c", PROGRAM, module, first, second]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
