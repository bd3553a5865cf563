"""A pipeline over a topic of numbers, as the tests of pipelines have it, and a server for its metrics."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.real.pipeline.conftest import World, streams, world

import directkafka
from directkafka.monitoring.http_server import HttpServer
from directkafka.testing.cache import cache_folder

__all__ = ["Web", "promtool", "streams", "web", "world"]

_LABELS = ("store", "table", "topic", "partition", "error", "step", "le")


@dataclass
class Web:
    """What a scraper, a supervisor and a browser get."""

    server: HttpServer

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        """Status and text of an answer."""
        request = Request(f"http://{self.server.address}{path}", headers=headers)
        try:
            with urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def samples(self, pipeline: str) -> dict[tuple[str, tuple[str, ...]], float]:
        """The values of one pipeline by name and labels, without the pipeline's and the cluster's."""
        status, text = self.get("/metrics")
        assert status == 200, text
        values = {}
        for metric in text_string_to_metric_families(text):
            for sample in metric.samples:
                labels = dict(sample.labels)
                if pipeline in {labels.pop("pipeline", None), labels.pop("group", None)}:
                    values[sample.name, tuple(labels[name] for name in _LABELS if name in labels)] = sample.value
        return values

    def lag(self, world: World, partition: int, name: str = "numbers") -> tuple[float | None, float | None]:
        """Lag of a partition in offsets and in seconds."""
        samples: dict[Any, float] = self.samples(name)
        labels = (world.topic, str(partition))
        return (
            samples.get(("kafka_consumergroup_group_lag", labels)),
            samples.get(("kafka_consumergroup_group_lag_seconds", labels)),
        )


@pytest.fixture
def web() -> Iterator[Web]:
    with directkafka.serve_http("127.0.0.1:0", stalled_after_s=3.0) as server:
        yield Web(server)


@pytest.fixture(scope="session")
def promtool(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``promtool(*arguments, given="")`` runs Prometheus' own tool; a Debian package brings it, without any rights."""
    path = shutil.which("promtool") or str(_packaged_promtool())

    def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run([path, *arguments], input=given, capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.fixture(scope="session")
def prometheus_binary() -> Path:
    """Prometheus itself, from the same package."""
    path = shutil.which("prometheus")
    return Path(path) if path else _packaged_promtool().with_name("prometheus")


def _packaged_promtool() -> Path:
    path = cache_folder() / "prometheus" / "usr" / "bin" / "promtool"
    if path.is_file():
        return path
    apt = shutil.which("apt-get")
    if apt is None:
        pytest.skip("no promtool: skipped (Prometheus' own tool, in Debian's package prometheus)")
    folder = path.parents[2]
    folder.mkdir(parents=True, exist_ok=True)
    fetched = subprocess.run([apt, "download", "prometheus"], cwd=folder, capture_output=True, text=True, check=False)
    packages = sorted(folder.glob("prometheus_*.deb"))
    if not packages:
        pytest.skip(f"no promtool: skipped (apt-get download prometheus: {fetched.stderr.strip()})")
    subprocess.run(["dpkg", "-x", str(packages[-1]), str(folder)], check=True)
    return path
