"""MySQL over TLS: used where the server has it, verified where that is asked for."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.certificates import Certified, authority, for_server

from directkafka.errors import StoreError
from directkafka.sinks.mysql.session import MySQLAddress, execute
from directkafka.testing import EmbeddedMariaDB

pytestmark = pytest.mark.real

OURS = authority("ours")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMariaDB]:
    folder = tmp_path_factory.mktemp("certificates")
    folder.chmod(0o755)
    own = for_server(OURS, hosts=["localhost"])
    (folder / "key.pem").write_text(own.key_pem())
    (folder / "certificate.pem").write_text(own.chain_pem)
    settings = {"ssl": "ON", "ssl-key": folder / "key.pem", "ssl-cert": folder / "certificate.pem"}
    with EmbeddedMariaDB(settings=settings) as started:
        yield started


@pytest.fixture
def url(server: EmbeddedMariaDB) -> Iterator[str]:
    yield server.create_database("shop").replace("127.0.0.1", "localhost")
    server.drop_database("shop")


def cipher(url: str) -> str:
    connection = MySQLAddress.parse(url).connect("tests")
    try:
        return str(execute(connection, "SHOW STATUS LIKE 'Ssl_cipher'")[0][1])
    finally:
        connection.close()


def verified(url: str, signer: Certified, folder: Path) -> str:
    path = folder / "authority.pem"
    path.write_text(signer.pem)
    return f"{url}?ssl_ca={quote(str(path))}&ssl_verify_identity=true"


def test_what_the_server_can_encrypt_is_encrypted_and_no_certificate_of_the_machine_is_read(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> None:
        raise AssertionError("the machine's certificates are read")

    for name in ("load_default_certs", "set_default_verify_paths"):
        monkeypatch.setattr(ssl.SSLContext, name, read)
    assert cipher(url).startswith("TLS")


def test_a_server_without_tls_is_talked_to_without_it(mysql_database: str) -> None:
    assert cipher(mysql_database) == ""


def test_a_server_is_verified_where_that_is_asked_for(url: str, tmp_path: Path) -> None:
    assert cipher(verified(url, OURS, tmp_path)).startswith("TLS")
    with pytest.raises(StoreError, match="certificate verify failed"):
        cipher(verified(url, authority("somebody else's"), tmp_path))
    other_name = verified(url.replace("localhost", "127.0.0.1"), OURS, tmp_path)
    with pytest.raises(StoreError, match=r"127\.0\.0\.1"):
        cipher(other_name)


def test_who_looks_at_a_session_from_beside_it_verifies_the_name_of_the_address(url: str, tmp_path: Path) -> None:
    """It goes to the very server, whose IP address its certificate need not have."""
    address = MySQLAddress.parse(verified(url, OURS, tmp_path))
    session = address.connect("tests")
    try:
        beside = address.connect_beside(session)
        assert execute(beside, "SELECT @@port") == execute(session, "SELECT @@port")
        beside.close()
    finally:
        session.close()


def test_a_server_without_tls_is_refused_where_it_is_to_be_verified(mysql_database: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="SSL"):
        cipher(verified(mysql_database, OURS, tmp_path))
