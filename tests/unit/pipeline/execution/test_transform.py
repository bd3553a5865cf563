"""What is told of a plan from its text; the plans were printed by Spark 4.3. And who is to blame for an error."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError, PySparkValueError

from directkafka.errors import DirectKafkaError, EnvironmentFaultError, TransformError
from directkafka.pipeline.application import spark_application
from directkafka.pipeline.execution.transform import PythonTransform, apply_transform, operators_of

GROUPED = """\
Aggregate [carrier#1], [carrier#1, count(1) AS n#9L]
+- SubqueryAlias source
   +- View (`source`, [key#0, value#1])
      +- MapInArrow <directkafka.spark.read_task.ReadRanges object at 0x7f>(id#0L)#7, [key#0, value#1], false
         +- Range (0, 2, step=1, splits=Some(2))
"""
JOINED = """\
Project [a#1]
+- Join Inner, (a#1 = b#2)
   :- Deduplicate [a#1]
   :  +- LocalRelation [a#1]
   +- Window [row_number() AS n#3]
      +- LocalRelation [b#2]
"""
UNRESOLVED = "'Distinct\n+- 'Project [*]\n   +- 'UnresolvedRelation [source], [], false\n"
HARMLESS = """\
Project [Window AS word#1, concat(Aggregate, Distinct) AS Deduplicate#2, EventTimeWatermark AS w#3]
+- Filter (topic#2 = Window)
   +- OneRowRelation
"""


@pytest.mark.parametrize(
    ("plan", "operators"),
    [
        (GROUPED, {"Aggregate", "SubqueryAlias", "View", "MapInArrow", "Range"}),
        (JOINED, {"Project", "Join", "Deduplicate", "LocalRelation", "Window"}),
        (UNRESOLVED, {"Distinct", "Project", "UnresolvedRelation"}),
        (HARMLESS, {"Project", "Filter", "OneRowRelation"}),
    ],
)
def test_operators_are_the_first_words_of_a_plans_lines_and_nothing_that_a_query_mentions(
    plan: str, operators: set[str]
) -> None:
    assert operators_of(plan) == operators


class Source:
    """A DataFrame, as far as it is needed before the transform has returned."""

    def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802 - Spark's name
        pass


@pytest.mark.parametrize(
    ("error", "java_answers", "expected"),
    [
        (PySparkRuntimeError("no answer"), False, EnvironmentFaultError),
        (PySparkRuntimeError("no answer"), True, TransformError),
        (
            PySparkRuntimeError(errorClass="SESSION_OR_CONTEXT_NOT_EXISTS", messageParameters={}),
            True,
            EnvironmentFaultError,
        ),
        (PySparkValueError("no number"), False, TransformError),
    ],
    ids=["a call without an answer", "a connection of the transform's", "no session", "the transform's own"],
)
def test_a_transform_is_not_blamed_for_a_spark_that_has_ended(
    error: Exception, java_answers: bool, expected: type[DirectKafkaError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_application, "java_answers", lambda: java_answers)
    source: Any = Source()
    session: Any = None

    def transform(frame: Any) -> Any:
        raise error

    with pytest.raises(expected):
        apply_transform(PythonTransform(transform, "job:transform"), source, session)
