"""Fetching and keeping the jars, with a shell script in the place of Java and Ivy."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from directkafka.errors import EnvironmentFaultError
from directkafka.testing import broker_jars as subject
from directkafka.testing import maven_jars

_FETCHED = ["kafka_2.13-4.3.0.jar", "slf4j-simple-1.7.36.jar"]

#: Of the text that stands for a jar.
_SUM = hashlib.sha256(b"jar\n").hexdigest()

_IVY = """\
#!/bin/sh
echo run >> '{runs}'
echo 'downloading https://example.invalid/maven2/kafka_2.13-4.3.0.jar ...'
while [ "$1" != -retrieve ]; do shift; done
folder=${{2%/*}}
mkdir "$folder" && echo jar > "$folder/{jar}" && echo jar > "$folder/slf4j-simple-1.7.36.jar"
echo 'the last words of Ivy'
exit {code}
"""


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DIRECTKAFKA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(maven_jars, "java_home", lambda: tmp_path / "java")
    monkeypatch.setattr(maven_jars, "pinned_sums", lambda subfolder: dict.fromkeys(_FETCHED, _SUM))
    monkeypatch.setattr(maven_jars, "_compared", set())
    _make_ivy(tmp_path)
    return tmp_path / "runs"


def _make_ivy(tmp_path: Path, *, jar: str = "kafka_2.13-4.3.0.jar", code: int = 0) -> None:
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(_IVY.format(runs=tmp_path / "runs", jar=jar, code=code))
    program.chmod(0o755)


def test_jars_are_fetched_once_and_progress_is_told(runs: Path) -> None:
    told: list[str] = []
    folder = subject.broker_jars("4.3.0", progress=told.append)
    assert sorted(jar.name for jar in folder.iterdir()) == _FETCHED
    assert told[-1] == "kafka_2.13-4.3.0.jar"
    told.clear()
    assert subject.broker_jars("4.3.0", progress=told.append) == folder
    assert told == []
    assert runs.read_text() == "run\n"


def test_of_several_that_ask_at_once_one_fetches(runs: Path) -> None:
    folders: list[Path] = []
    threads = [threading.Thread(target=lambda: folders.append(subject.broker_jars("4.3.0"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folders) == 4
    assert len(set(folders)) == 1
    assert runs.read_text() == "run\n"


@pytest.mark.parametrize(("jar", "code"), [("kafka_2.13-4.3.0.jar", 1), ("another.jar", 0)])
def test_a_failed_fetch_says_ivys_last_words_and_leaves_nothing(
    jar: str, code: int, runs: Path, tmp_path: Path
) -> None:
    _make_ivy(tmp_path, jar=jar, code=code)
    with pytest.raises(EnvironmentFaultError, match="the last words of Ivy"):
        subject.broker_jars("4.3.0")
    assert [path.name for path in (tmp_path / "cache" / "kafka").iterdir()] == ["4.3.0.lock"]
    _make_ivy(tmp_path)
    assert subject.broker_jars("4.3.0").is_dir()


def test_what_a_killed_fetch_left_is_not_taken_for_the_jars(runs: Path, tmp_path: Path) -> None:
    half = tmp_path / "cache" / "kafka" / "4.3.0.draft" / "jars"
    half.mkdir(parents=True)
    (half / "half.jar").write_text("half")
    assert sorted(jar.name for jar in subject.broker_jars("4.3.0").iterdir()) == _FETCHED


def test_a_jar_that_is_not_the_published_one_is_not_kept(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = {_FETCHED[0]: _SUM, _FETCHED[1]: "0" * 64}
    monkeypatch.setattr(maven_jars, "pinned_sums", lambda subfolder: sums)
    with pytest.raises(EnvironmentFaultError, match=r"slf4j-simple-1.7.36.jar in .* is not what was published"):
        subject.broker_jars("4.3.0")
    assert [path.name for path in (tmp_path / "cache" / "kafka").iterdir()] == ["4.3.0.lock"]


@pytest.mark.parametrize("change", ["changed", "added", "removed"])
def test_jars_in_the_cache_are_compared_again_by_the_next_process(runs: Path, change: str) -> None:
    folder = subject.broker_jars("4.3.0")
    if change == "removed":
        (folder / _FETCHED[0]).unlink()
    else:
        (folder / (_FETCHED[0] if change == "changed" else "more.jar")).write_text("somebody else's code")
    maven_jars._compared.clear()
    with pytest.raises(EnvironmentFaultError, match="Remove the folder"):
        subject.broker_jars("4.3.0")


def test_the_broker_s_and_the_connector_s_jars_have_sums() -> None:
    broker, connector = maven_jars.pinned_sums("kafka/4.3.0"), maven_jars.pinned_sums("jvm-connector-4.2.0")
    assert (len(broker), len(connector)) == (46, 5)
    assert set(_FETCHED) <= set(broker)
    assert all(len(digest) == 64 for digest in (*broker.values(), *connector.values()))
    assert maven_jars.pinned_sums("kafka/0.8.0") == {}


def test_an_ivy_that_does_not_end_is_ended(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maven_jars, "_IVY_S", 0.2)
    (tmp_path / "java" / "bin" / "java").write_text("#!/bin/sh\nexec sleep 600\n")
    with pytest.raises(EnvironmentFaultError, match="It was ended, because it took longer than"):
        subject.broker_jars("4.3.0")
