"""Places of values as Kafka's config providers write them: what is found there, and what is said when it is nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from directkafka.errors import OptionError
from directkafka.options.client import ClientOptions
from directkafka.options.config_providers import ValueNotProvidedError, value_at, with_provided_values
from directkafka.options.consumer import ConsumerOptions, Subscribe
from directkafka.options.producer import SinkOptions
from directkafka.options.spec import RawOptions, Secret

LOGIN = {
    "bootstrap.servers": "b:9092",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "ann",
}
CLASSES = "org.apache.kafka.common.config.provider"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kafka.properties").write_text("# of the cluster\npassword = hun\\\n  ter2\nuser: ann\\u00e9\n")
    (tmp_path / "password").write_text("hunter3\n")
    return tmp_path


def texts(params: dict[str, str], **environment: str) -> dict[str, str]:
    return dict(with_provided_values(RawOptions.read(params), environment).texts)


def refused(params: dict[str, str], **environment: str) -> OptionError:
    with pytest.raises(OptionError) as caught:
        texts(params, **environment)
    assert "hunter" not in str(caught.value)
    return caught.value


def test_a_key_of_a_properties_file_is_read_as_java_reads_it(folder: Path) -> None:
    for key, value in (("password", "hunter2"), ("user", "ann\u00e9")):
        assert value_at(f"file:{folder}/kafka.properties:{key}", environment={}) == value


def test_a_file_of_a_folder_is_a_value_without_the_line_s_end(folder: Path) -> None:
    assert value_at(f"dir:{folder}:password", environment={}) == "hunter3"


def test_a_relative_path_begins_at_the_folder_that_is_given(folder: Path) -> None:
    assert value_at("file:kafka.properties:password", environment={}, folder=folder) == "hunter2"
    assert value_at("dir:.:password", environment={}, folder=folder) == "hunter3"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("env:NOWHERE", "the environment variable NOWHERE is not set"),
        ("file:FOLDER/kafka.properties", "expected ${file:PATH:KEY}"),
        ("file::key", "expected ${file:PATH:KEY}"),
        ("file:FOLDER/nothing:key", "cannot be read (No such file or directory)"),
        ("file:FOLDER:key", "is not a file"),
        ("file:/dev/zero:key", "/dev/zero is not a file"),
        ("file:FOLDER/kafka.properties:passwort", "has no key passwort (number of its keys: 2)"),
        ("file:FOLDER/password:password", "has no key password (number of its keys: 1)"),
        ("file:FOLDER/circle:key", "cannot be read (Too many levels of symbolic links)"),
        ("dir:FOLDER:../password", "../password is not the name of a file"),
        ("dir:FOLDER:..", ".. is not the name of a file"),
        ("dir:FOLDER:nothing", "cannot be read"),
        ("file:a\0b:key", "NUL"),
        ("dir:FOLDER:bytes", "is not UTF-8 text"),
        ("file:FOLDER/escape:key", "is not a file of Java properties"),
        ("file:FOLDER/large:key", "has more than 1048576 bytes"),
    ],
)
def test_a_place_without_a_value_is_told_and_no_value_is_shown(folder: Path, reference: str, reason: str) -> None:
    (folder / "circle").symlink_to(folder / "circle")
    (folder / "bytes").write_bytes(b"hunter2\xff")
    (folder / "escape").write_text("key = hunter2 \\uXYZ")
    (folder / "large").write_text("x" * (1024 * 1024 + 1))
    with pytest.raises(ValueNotProvidedError) as caught:
        value_at(reference.replace("FOLDER", str(folder)), environment={"PASSWORD": "hunter2"})
    assert reason in str(caught.value)
    assert "hunter" not in str(caught.value)
    assert caught.value.__cause__ is None or "hunter" not in str(caught.value.__cause__)


def test_options_are_looked_up_where_providers_are_named_and_their_settings_are_gone(folder: Path) -> None:
    params = {
        "Config.Providers": "vault, env",
        "config.providers.vault.class": f"{CLASSES}.DirectoryConfigProvider",
        "sasl.password": f"${{vault:{folder}:password}}",
        "client.id": "${env:NAME}-${env:NAME}",
    }
    assert texts(params, NAME="job") == {"sasl.password": "hunter3", "client.id": "job-job"}


def test_without_providers_a_text_stays_as_it_is_and_so_does_one_of_another_provider() -> None:
    assert texts({"client.id": "${env:HOME}"}, HOME="/root") == {"client.id": "${env:HOME}"}
    params = {"config.providers": "file", "client.id": "${vault:secret/x:y} ${HOME} ${env:HOME}"}
    assert texts(params, HOME="/root") == {"client.id": "${vault:secret/x:y} ${HOME} ${env:HOME}"}


def test_a_value_that_was_found_is_not_looked_into_again(folder: Path) -> None:
    params = {"config.providers": "env,dir", "client.id": "${env:NAME}"}
    assert texts(params, NAME=f"${{dir:{folder}:password}}") == {"client.id": f"${{dir:{folder}:password}}"}


def test_what_may_be_read_is_bounded_as_kafka_bounds_it(folder: Path) -> None:
    (folder / "allowed").mkdir()
    (folder / "allowed" / "link").symlink_to(folder / "password")
    (folder / "allowed" / "own").write_text("mine")
    params = {
        "config.providers": "dir,env",
        "config.providers.dir.param.allowed.paths": f"{folder}/allowed",
        "config.providers.env.param.allowlist.pattern": "KAFKA_.*",
    }
    assert texts({**params, "x": f"${{dir:{folder}/allowed:own}}"})["x"] == "mine"
    for reference in (f"${{dir:{folder}:password}}", f"${{dir:{folder}/allowed:link}}"):
        assert "is outside allowed.paths" in refused({**params, "x": reference}).reason
    assert texts({**params, "x": "${env:KAFKA_USER}"}, KAFKA_USER="ann")["x"] == "ann"
    for name in ("PASSWORD", "OTHER_KAFKA_PASSWORD"):
        told = refused({**params, "x": f"${{env:{name}}}"}, **{name: "hunter2"}).reason
        assert told == f"the environment variable {name} is not one of allowlist.pattern"


def test_a_bound_that_says_nothing_lets_nothing_through(folder: Path) -> None:
    params = {"config.providers": "dir, dir", "x": f"${{dir:{folder}:password}}"}
    assert texts(params)["x"] == "hunter3"
    bound = {**params, "config.providers.dir.param.allowed.paths": ","}
    assert "is outside allowed.paths" in refused(bound).reason


@pytest.mark.parametrize("path", ["relative", "/no/such/folder"])
def test_a_bound_must_be_an_absolute_path_that_is_there(path: str) -> None:
    name = "config.providers.dir.param.allowed.paths"
    error = refused({"config.providers": "dir", name: path})
    assert (error.option, "absolute and there" in error.reason) == (name, True)


@pytest.mark.parametrize(
    ("params", "option", "reason"),
    [
        ({"config.providers": "vault"}, "config.providers.vault.class", "is missing; known are FileConfigProvider"),
        (
            {"config.providers": "v", "config.providers.v.class": "com.example.VaultConfigProvider"},
            "config.providers.v.class",
            "is com.example.VaultConfigProvider, which is not known here",
        ),
        (
            {"config.providers": "file", "config.providers.file.param.alowed.paths": "/"},
            "config.providers.file.param.alowed.paths",
            "or is no setting of it",
        ),
        (
            {"config.providers": "env", "config.providers.env.param.allowlist.pattern": "("},
            "config.providers.env.param.allowlist.pattern",
            "is not a Python regular expression",
        ),
        (
            {"config.providers": "env", "config.providers.env.param.allowlist.pattern": "(" * 5_000},
            "config.providers.env.param.allowlist.pattern",
            "that Python cannot take",
        ),
    ],
)
def test_a_provider_that_is_not_known_is_refused(params: dict[str, str], option: str, reason: str) -> None:
    error = refused(params)
    assert error.option == option
    assert reason in error.reason


def test_every_place_without_a_value_is_told_at_once() -> None:
    error = refused({"config.providers": "env", "client.id": "${env:A}", "client.rack": "${env:B}"})
    assert ("A is not set" in str(error), "B is not set" in str(error)) == (True, True)


@pytest.mark.parametrize(
    "name",
    ["bootstrap.servers", "security.protocol", "request.timeout.ms", "sasl.mechanism", "security.preset", "check.crcs"],
)
def test_a_value_that_is_wrong_is_told_and_not_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "Hunter2")
    with pytest.raises(OptionError) as caught:
        ClientOptions.from_kafka_params({**LOGIN, "config.providers": "env", name: "${env:SECRET}"})
    assert caught.value.option == name
    assert "hunter2" not in str(caught.value).lower()
    assert "********" in caught.value.reason


def test_settings_that_are_not_of_the_connection_are_looked_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUP", "night-job")
    monkeypatch.setenv("CODEC", "lz4")
    params = {"bootstrap.servers": "b:9092", "config.providers": "env", "group.id": "${env:GROUP}"}
    assert ConsumerOptions.read(Subscribe(["air"], params)).group_id == "night-job"
    written = {f"kafka.{name}": text for name, text in params.items() if name != "group.id"}
    options = SinkOptions.parse({**written, "kafka.compression.type": "${env:CODEC}"})
    assert options.producer.compression == "lz4"


def test_a_login_s_password_may_stand_in_a_file(folder: Path) -> None:
    params = {"config.providers": "file", "sasl.password": f"${{file:{folder}/kafka.properties:password}}"}
    assert ClientOptions.from_kafka_params({**LOGIN, **params}).sasl_password == Secret("hunter2")
