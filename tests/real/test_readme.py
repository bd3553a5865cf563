"""The README and the guides at work: their Python, pipeline file and commands, just as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import directkafka as dk
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
FIRST_STEPS = ROOT / "docs" / "guide" / "getting-started.md"
GUIDES = [ROOT / "docs" / "guide" / name for name in ("source.md", "payloads.md", "pipelines.md")]
PATIENCE_S = 300
#: As after ``. venv/bin/activate``: Spark's workers are the ``python3`` of PATH.
AFTER_ACTIVATE = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}

#: What a reader does with a page: paste its Python, piece by piece, into one program; then run its commands.
READER = """
import shlex
from pathlib import Path
from directkafka.cli import commands
from directkafka.cli.app import app
from directkafka.testing.java import use_java

use_java()
names = {"__name__": "page"}
for path in sorted(Path().glob("block-*.py")):
    exec(compile(path.read_text(), str(path), "exec"), names)
for line in Path("commands.sh").read_text().splitlines():
    program, *arguments = shlex.split(line, comments=True)
    assert program == "directkafka"
    assert not app(arguments, standalone_mode=False), line
"""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def clicks() -> Iterator[KafkaBroker]:
    """A broker of its own, since the pages name their topic: ``clicks``, with 1000 records in 2 partitions."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    with KafkaBroker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("clicks", 2, 1)])["clicks"].result(30)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(1000):
            producer.produce("clicks", f'{{"page": "/{number % 3}"}}'.encode(), partition=number % 2)
        assert producer.flush(30) == 0
        yield broker


def read_along(folder: Path, programs: list[str], commands: str, broker: KafkaBroker, database: str) -> str:
    for number, program in enumerate(programs):
        (folder / f"block-{number}.py").write_text(program)
    (folder / "commands.sh").write_text(commands)
    done = subprocess.run(
        [sys.executable, "-c", READER],
        cwd=folder,
        env={**AFTER_ACTIVATE, "KAFKA": broker.bootstrap_servers, "DSN": database, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout


def test_the_readme_and_the_first_steps_work_as_pasted(clicks: KafkaBroker, database: str, tmp_path: Path) -> None:
    (tmp_path / "clicks.toml").write_text(blocks(FIRST_STEPS, "toml")[0])
    commands = next(block for block in blocks(FIRST_STEPS, "sh") if block.startswith("directkafka"))
    # The last piece is a test. Here it has this broker, which makes no topics by itself either; as a file of pytest's,
    # with the fixtures that are installed, it is run by test_the_tests_of_the_guides_pass.
    *programs, as_test = blocks(FIRST_STEPS, "python")
    assert as_test.startswith("def test_")
    printed = read_along(tmp_path, [*blocks(README, "python"), *programs], commands, clicks, database)
    shown, carried, *others = printed.splitlines()
    assert carried == "rows pass through Spark: its transform is a query or a function over DataFrames"
    assert f"It prints `{shown}`" in README.read_text()
    assert others[:2] == ["1000", "1000"]
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT page, views FROM page_views ORDER BY page").fetchall()
        counts = 'count(*), count(DISTINCT (partition, "offset"))'
        first = connection.execute(f"SELECT {counts} FROM first_clicks").fetchone()
    assert rows == [("/0", 334), ("/1", 333), ("/2", 333)]
    assert first == (1000, 1000)
    names: dict[str, object] = {}
    exec(compile(as_test, FIRST_STEPS.name, "exec"), names)
    names["test_my_job_reads_what_was_sent"](clicks, lambda: "a-topic-of-its-own")  # type: ignore[operator]


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= 100
    assert len([line for line in blocks(README, "python")[0].splitlines() if line]) <= 12


def test_the_readme_says_what_a_word_means_before_it_uses_it() -> None:
    """Ledger, generation and fence are words of this project alone."""
    text = re.sub(r"```.*?```", "", README.read_text(), flags=re.DOTALL).lower()
    for word in ("ledger", "generation", "fence"):
        assert text.index(word) == text.index(f"**{word}**") + 2, word


@pytest.mark.slow
def test_the_guides_work_as_pasted(clicks: KafkaBroker, database: str, tmp_path: Path) -> None:
    programs = [block for page in GUIDES for block in blocks(page, "python")]
    read_along(tmp_path, programs, "", clicks, database)
    with psycopg.connect(database) as connection:
        clicked = connection.execute("SELECT count(*) FROM clicks").fetchone()
        totals = connection.execute("SELECT count(*), sum(clicks) FROM click_totals").fetchone()
        longer = connection.execute("SELECT count(*), min(click) FROM longer_clicks").fetchone()
        replayed = connection.execute("SELECT count(*), (SELECT count(*) FROM not_numbers) FROM numbers").fetchone()
    assert (clicked, totals, longer) == ((1000,), (3, 1000), (1000, '{"page": "/0"}'))
    assert replayed == (1000, 0)


@pytest.mark.slow
def test_the_guide_to_direct_streams_works_as_pasted(clicks: KafkaBroker, database: str, tmp_path: Path) -> None:
    """But for its streams' end: they would run for ever."""
    ending = "ssc.awaitTerminationOrTimeout(15)\nssc.stop(stopSparkContext=False, stopGraceFully=True)"
    programs = blocks(ROOT / "docs" / "guide" / "direct.md", "python")
    assert sum("ssc.awaitTermination()" in program for program in programs) == 2
    programs = [program.replace("ssc.awaitTermination()", ending) for program in programs]
    printed = read_along(tmp_path, programs, "", clicks, database)
    assert printed.startswith("1000 [ConsumerRecord(")
    assert "14000 bytes" in printed, 'each is {"page": "/0"}'
    with dk.Cluster({"bootstrap.servers": clicks.bootstrap_servers}) as cluster:
        assert sum(cluster.committed("shown").values()) == 1000
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM seen").fetchone() == (1000,)


@pytest.mark.slow
def test_the_tests_of_the_guides_pass(tmp_path: Path) -> None:
    """In a folder without a conftest: all that they have is what the package's plugin brings."""
    guides = (FIRST_STEPS, ROOT / "docs" / "guide" / "testing.md")
    tests = [block for guide in guides for block in blocks(guide, "python") if block.startswith("def test_")]
    assert len(tests) == 6
    (tmp_path / "test_guides.py").write_text("\n\n".join(tests))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_guides.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
