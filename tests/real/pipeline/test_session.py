"""The look at the executors before the first batch."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from directkafka import register
from directkafka.errors import EnvironmentFaultError
from directkafka.pipeline.execution import session as session_module
from directkafka.pipeline.execution.session import active_session_kept, check_executors, session_for

pytestmark = pytest.mark.real


def dying_probe(folder: Path, times: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The probe of a worker that is killed the first few times."""
    for number in range(times):
        try:
            (folder / str(number)).touch(exist_ok=False)
        except FileExistsError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)
    yield from REAL_PROBE(batches)


REAL_PROBE = session_module._probe


def own_session() -> SparkSession:
    """A session as pipelines have it."""
    return session_for("numbers", master="local[2]", conf={})


@pytest.fixture
def unchecked(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    monkeypatch.setattr(session_module, "_checked", set())
    return spark


def test_a_worker_that_is_killed_while_executors_are_looked_at_does_not_end_the_pipeline(
    unchecked: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "_probe", functools.partial(dying_probe, tmp_path, 1))
    check_executors(unchecked)
    assert unchecked.sparkContext.applicationId in session_module._checked


@pytest.mark.slow
def test_workers_that_die_each_time_are_told_with_what_spark_says(
    unchecked: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "_probe", functools.partial(dying_probe, tmp_path, 99))
    with pytest.raises(EnvironmentFaultError, match="a job on the executors failed"):
        check_executors(unchecked)
    assert unchecked.sparkContext.applicationId not in session_module._checked


def test_a_spark_that_ends_while_executors_are_looked_at_is_told_as_that(
    unchecked: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped_meanwhile(*_: object) -> None:
        raise AttributeError("'NoneType' object has no attribute 'sc'")  # PySpark's words in a stopped context

    monkeypatch.setattr(session_module, "map_in_arrow", stopped_meanwhile)
    with pytest.raises(EnvironmentFaultError, match="Spark was shut down") as raised:
        check_executors(unchecked)
    assert "PYSPARK_PYTHON" not in str(raised.value)


@pytest.mark.parametrize("setting", ["enabled", "enableFullRetryOnMismatch"])
def test_checksums_of_shuffles_are_on_whatever_the_application_was_told(spark: SparkSession, setting: str) -> None:
    """A lost part that is dealt again and otherwise would be mixed with what is left of the first dealing."""
    key = f"spark.sql.shuffle.orderIndependentChecksum.{setting}"
    jvm_session: Any = spark._jsparkSession
    told = jvm_session.sharedState().conf()
    assert not told.contains(key)
    told.set(key, "false")
    try:
        assert spark.newSession().conf.get(key) == "false"
        assert own_session().conf.get(key) == "true"
    finally:
        told.remove(key)


def test_a_pipeline_s_own_session_does_not_stay_the_thread_s_active_one(spark: SparkSession) -> None:
    register(spark)
    with active_session_kept():
        spark.newSession().createDataFrame([(1,)], "number int").collect()
    # Spark looks for a write's format in the active session; none is registered in the other one.
    with pytest.raises(Exception, match=r"kafka\.bootstrap\.servers.* is required"):
        spark.sql("SELECT 'v' AS value").write.format("directkafka").mode("append").save()


def test_pyspark_goes_on_with_the_session_that_was_the_active_one(spark: SparkSession) -> None:
    spark.createDataFrame([(1,)], "number int")
    with active_session_kept():
        own_session().createDataFrame([(1,)], "number int")
    assert SparkSession.active() is spark


def test_pyspark_goes_on_with_the_user_s_session_behind_two_pipelines_that_overlap(spark: SparkSession) -> None:
    """The second one begins when the first one's session is the active one."""
    spark.createDataFrame([(1,)], "number int")
    first, second = active_session_kept(), active_session_kept()
    with first:
        own_session().createDataFrame([(1,)], "number int")
        second.__enter__()
    own_session().createDataFrame([(1,)], "number int")
    second.__exit__(None, None, None)
    assert SparkSession._activeSession is spark


def test_a_session_that_the_user_has_made_the_active_one_meanwhile_stays_that(spark: SparkSession) -> None:
    theirs = spark.newSession()
    with active_session_kept():
        own_session().createDataFrame([(1,)], "number int")
        theirs.createDataFrame([(1,)], "number int")
    assert SparkSession._activeSession is theirs
    spark.createDataFrame([(1,)], "number int")


def test_registering_again_makes_the_session_the_active_one(spark: SparkSession) -> None:
    register(spark)
    spark.newSession().createDataFrame([(1,)], "number int").collect()
    register(spark)
    with pytest.raises(Exception, match=r"kafka\.bootstrap\.servers.* is required"):
        spark.sql("SELECT 'v' AS value").write.format("directkafka").mode("append").save()
