"""Fixtures for all tests. Nothing costly is imported or started before a test asks for it."""

from __future__ import annotations

import gc
import logging
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from tests import quick_start, worker_daemon

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.servers import RunServers, SharedBroker, SharedPostgres

    from directkafka.testing import EmbeddedMariaDB, EmbeddedPostgres, KafkaBroker

# An example that takes longer on a busy machine is not wrong.
settings.register_profile(
    "calm", deadline=None, derandomize=False, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
#: Each run draws other examples, so many quick runs draw as many as a long one.
settings.register_profile("quick", settings.get_profile("calm"), max_examples=40)
settings.load_profile("calm")

# kafka-python warns of a task of its event loop that took 0.1 s, as each may on a busy machine. Tests that ask what was
# logged ask about the library.
logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)

_ROOT = Path(__file__).parent.parent
# Until all tests are collected, nothing that is made is garbage.
gc.disable()

_SERVERS: pytest.StashKey[RunServers] = pytest.StashKey()
_ADDRESSES = "directkafka_servers"


def pytest_configure(config: pytest.Config) -> None:
    """Start Spark quickly, also in processes of tests' own; draw fewer examples where slow tests are left out."""
    is_quick_run = "not slow" in config.option.markexpr
    quick_start.use(is_quick_run=is_quick_run)
    if is_quick_run:
        settings.load_profile("quick")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a worker of pytest-xdist the addresses of the run's servers, which start with the first worker."""
    from tests.servers import RunServers

    stash = node.config.stash
    if _SERVERS not in stash:
        quick_start.make()
        stash[_SERVERS] = RunServers().start()
    node.workerinput[_ADDRESSES] = stash[_SERVERS].addresses()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End the run's servers; also after a worker died.

    And give the garbage collector all of it back, when pytest has looked for garbage: libraries in C look at their end
    for what is left, and say so.
    """
    if _SERVERS in config.stash:
        config.stash[_SERVERS].stop()
    gc.unfreeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort what pytest-randomly has shuffled, in the workers of pytest-xdist."""
    if _addresses(config):
        from tests.side_by_side import sort_by_file

        sort_by_file(items, tests=str(_ROOT / "tests"))


def pytest_collection_finish() -> None:
    """Spare the garbage collector what lives for the whole run: else it goes through all of that each time."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deal files out as ``tests.side_by_side`` says."""
    from tests.side_by_side import FromBothEnds

    return FromBothEnds(config, log)


def _addresses(config: pytest.Config) -> dict[str, str]:
    """The servers of the process that deals the files out; none where this process runs alone."""
    given: dict[str, dict[str, str]] = getattr(config, "workerinput", {})
    return given.get(_ADDRESSES, {})


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[KafkaBroker | SharedBroker]:
    """One real broker for the whole run; tests that kill nodes make a cluster of their own."""
    from tests.servers import SharedBroker

    from directkafka.testing import KafkaBroker

    if shared := _addresses(request.config):
        yield SharedBroker(shared["kafka"])
        return
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def _nothing_told_or_started_yet() -> None:
    """Each test is a program of its own.

    What a program is told once is told to each test. Whoever observes the pipelines of the process does not find those
    of other tests: their brokers have ended, and clients would go on to connect to them for minutes.
    """
    if told_once := sys.modules.get("directkafka.told_once"):
        told_once._told.clear()
    if status := sys.modules.get("directkafka.pipeline.status"):
        status._started.clear()
    if queries := sys.modules.get("directkafka.monitoring.queries"):
        queries.query_statuses._statuses.clear()
        queries.query_statuses._names.clear()


@pytest.fixture(autouse=True)
def _what_is_logged_stays_as_it_was() -> Iterator[None]:
    """A command sets levels for its whole process, where tests of other files want to see a client's log."""
    loggers = [logging.getLogger(name) for name in (None, "directkafka", "kafka", "py4j")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        if logger.level != level:
            logger.setLevel(level)


@pytest.fixture
def create_topic(kafka_broker: KafkaBroker, topic: Callable[[], str]) -> Callable[..., str]:
    """``create_topic(partitions=1, config={})`` makes a topic on the session's broker and returns its name."""
    from tests.topics import make_topic

    def create(partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        return make_topic(kafka_broker.bootstrap_servers, topic(), partitions, config=config)

    return create


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres | SharedPostgres]:
    """One real Postgres for the whole run; tests that kill it make one of their own."""
    from tests.servers import SharedPostgres

    from directkafka.testing import EmbeddedPostgres

    if shared := _addresses(request.config):
        yield SharedPostgres(shared["postgres"])
        return
    with EmbeddedPostgres() as server:
        yield server


@pytest.fixture
def database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The connection string of an empty database for this test alone."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield postgres.create_database(name)
    postgres.drop_database(name)


@pytest.fixture
def mysql_database(mariadb: EmbeddedMariaDB) -> Iterator[str]:
    """The URL of an empty database for this test alone."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield mariadb.create_database(name)
    mariadb.drop_database(name)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local Spark for the whole session: two cores, UTC, and all its files in a temporary folder."""
    from directkafka.testing.java import use_java

    use_java()
    folder = tmp_path_factory.mktemp("spark")
    # Workers unpickle functions of the test modules by importing them as `tests....`.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("directkafka tests")
    for name, value in _spark_config(folder).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def _spark_config(folder: Path) -> dict[str, str]:
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-XX:-UsePerfData -Djava.io.tmpdir={folder}",
        "spark.local.dir": str(folder / "local"),
        "spark.python.daemon.module": worker_daemon.MODULE,
        # No test has rows enough to earn back the time that a query's compilation takes.
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
