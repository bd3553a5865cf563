"""What a notebook shows of real pipelines and clusters, and batches as they are committed."""

from __future__ import annotations

import uuid
from html import unescape
from typing import Any

import pytest
from tests.real.pipeline.conftest import COUNT, World
from tests.real.pipeline.test_replay import EVERY_TENTH, ROUND
from tests.topics import make_topic
from tests.waiting import until

from directkafka import Cluster, OptionError, PostgresSink, plot_lag
from directkafka.pipeline.verify import verify

pytestmark = pytest.mark.real


@pytest.mark.slow
def test_a_pipeline_and_its_findings_are_tables(world: World) -> None:
    pipeline = world.pipeline(EVERY_TENTH, dead_letters=PostgresSink(world.dsn, "rejected"))
    assert "ended" in pipeline._repr_html_()
    pipeline.run()
    shown = unescape(pipeline._repr_html_())
    assert "<caption>Pipeline numbers</caption>" in shown
    assert f'rows in records</td><td style="text-align: right">{COUNT - len(ROUND)}<' in shown
    assert f'rows in rejected</td><td style="text-align: right">{len(ROUND)}<' in shown
    assert f'records read</td><td style="text-align: right">{COUNT}<' in shown
    findings = verify(pipeline)
    assert f'<td style="text-align: right">{COUNT - len(ROUND)}</td>' in findings._repr_html_()
    assert len(findings) == 2


def test_a_cluster_is_a_table_of_its_topics_and_one_that_is_gone_says_so(world: World) -> None:
    # A table shows 100 rows, and other tests may have made more topics: this one is the first of all.
    first = make_topic(world.kafka, f"-{uuid.uuid4().hex}", 3)
    with Cluster({"bootstrap.servers": world.kafka}) as cluster:
        assert f'{first}</td><td style="text-align: right">3<' in cluster._repr_html_()
        ranges = cluster.offset_ranges(world.topic)
        assert f"3 offset ranges, {COUNT} offsets" in ranges._repr_html_()
    gone: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "socket.connection.setup.timeout.ms": 500}
    with Cluster(gone) as cluster:
        assert "127.0.0.1:1" in cluster._repr_html_()


def test_progress_gives_each_batch_and_ends_with_the_run(world: World) -> None:
    pipeline = world.pipeline(trigger="50ms")
    pipeline.start()
    seen = []
    try:
        for batch in pipeline.progress():
            seen.append(batch)
            if sum(each.offsets for each in seen) == COUNT:
                pipeline.request_stop()
    finally:
        pipeline.stop()
    assert [batch.batch_id for batch in seen] == list(range(1, len(seen) + 1))
    assert sum(batch.rows["records"] for batch in seen) == COUNT
    assert list(pipeline.progress()) == [], "it does not run any more"


def test_progress_of_a_run_that_ends_before_it_begins_ends_too(world: World) -> None:
    pipeline = world.pipeline(trigger="50ms")
    pipeline.request_stop()
    pipeline.start()
    assert list(pipeline.progress()) == []
    pipeline.stop()


@pytest.mark.slow
def test_progress_does_not_wait_for_a_replay(world: World) -> None:
    world.pipeline(EVERY_TENTH, dead_letters=PostgresSink(world.dsn, "rejected")).run()
    mended = world.pipeline(dead_letters=PostgresSink(world.dsn, "rejected"))
    seen: list[Any] = []
    mended.replay(report=lambda _: seen.append(list(mended.progress())))
    assert seen
    assert all(reports == [] for reports in seen)


def test_progress_raises_what_ended_the_run(world: World) -> None:
    pipeline = world.pipeline("SELECT raise_error('no') AS topic FROM source")
    pipeline.start()
    with pytest.raises(Exception, match="no"):
        list(pipeline.progress())


def test_who_does_not_read_on_holds_nobody_up(world: World) -> None:
    pipeline = world.pipeline(trigger="50ms")
    pipeline.start()
    try:
        first = next(iter(pipeline.progress()))
        until(lambda: (pipeline.status.view.batch_id or 0) > first.batch_id + 1, "it does not go on")
    finally:
        pipeline.stop()
    assert world.numbers() == list(range(COUNT))


@pytest.mark.slow
def test_a_plot_has_a_bar_for_each_partition(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    axes = plot_lag(world.pipeline())
    assert axes.get_title() == f"Lag of numbers: {COUNT}"
    assert len(axes.patches) == 3
    world.pipeline().run()
    assert plot_lag(world.pipeline(), axes) is axes
    assert axes.get_title() == "Lag of numbers: 0"
    from matplotlib import pyplot

    pyplot.close("all")
    monkeypatch.setattr("directkafka.options.texts.find_spec", lambda _: None)
    with pytest.raises(OptionError, match=r"pip install '\.\[plot\]'"):
        plot_lag(world.pipeline())
