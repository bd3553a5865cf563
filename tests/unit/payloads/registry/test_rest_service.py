"""TLS to a registry: whom the client trusts, who it is, and what it says where one of the two is not so."""

from __future__ import annotations

import pickle
import select
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from tests.certificates import Certified, authority, for_client, for_server
from tests.registry_server import RegistryServer, running

from directkafka.errors.registry import RegistryAccessError
from directkafka.options.registry import read_registry
from directkafka.options.spec import RawOptions
from directkafka.payloads.registry.client import client_of

PREFIX = "value.registry."

Served = Callable[..., RegistryServer]


@pytest.fixture(scope="module")
def trusted() -> Certified:
    return authority("trusted")


@pytest.fixture
def served(trusted: Certified, tmp_path: Path) -> Iterator[Served]:
    """Starts a registry that speaks TLS; ``asks``: for a certificate of the client's."""
    with ExitStack() as stack:

        def serve(*, certificate: Certified | None = None, asks: bool = False) -> RegistryServer:
            shown = certificate or for_server(trusted)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(written(tmp_path / "server.pem", shown.chain_pem + shown.key_pem()))
            if asks:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(cadata=trusted.pem)
            server = stack.enter_context(running(context))
            server.add(7, "string")
            return server

        yield serve


@pytest.fixture
def ca(trusted: Certified, tmp_path: Path) -> dict[str, str]:
    return {"ssl.ca.location": str(written(tmp_path / "ca.pem", trusted.pem))}


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def schema(server: RegistryServer, **options: str) -> str:
    """What a task is told, from the options on: they were pickled on their way."""
    given = {"url": server.url, "basic.auth.user.info": "ann:secret-word", **options}
    registry = read_registry(RawOptions.read({PREFIX + name: text for name, text in given.items()}), PREFIX)
    return client_of(pickle.loads(pickle.dumps(registry))).schema(7).texts[0]


def refusal(server: RegistryServer, **options: str) -> str:
    with pytest.raises(RegistryAccessError) as caught:
        schema(server, **options)
    assert "secret-word" not in str(caught.value)
    assert server.asked == []
    return str(caught.value)


def test_a_registry_whose_authority_is_trusted_answers(served: Served, ca: dict[str, str]) -> None:
    server = served()
    assert schema(server, **ca) == '"string"'
    assert server.logins == ["Basic YW5uOnNlY3JldC13b3Jk"]


def test_a_registry_whom_nobody_vouches_for_gets_no_request(served: Served) -> None:
    told = refusal(served())
    assert "its certificate is signed by nobody who is trusted" in told
    assert (
        "give that of the authority with value.registry.ssl.truststore.location or value.registry.ssl.ca.location"
        in told
    )


def test_a_client_with_a_certificate_is_let_in(
    served: Served, ca: dict[str, str], trusted: Certified, tmp_path: Path
) -> None:
    ann = for_client(trusted, "ann")
    own = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(tmp_path / "ann.p12"),
        "ssl.keystore.password": "p",
    }
    (tmp_path / "ann.p12").write_bytes(ann.pkcs12("p"))
    assert schema(served(asks=True), **ca, **own) == '"string"'


@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "with a request that comes too late"])
def test_a_client_without_the_certificate_that_is_asked_for_is_told_so(
    served: Served, ca: dict[str, str], is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client takes the handshake for done, and the server may have closed the connection by then."""

    def connect(connection: HTTPSConnection) -> None:
        connect_at_once(connection)
        closed = select.poll()
        closed.register(connection.sock, select.POLLRDHUP)
        assert closed.poll(10_000)

    connect_at_once = HTTPSConnection.connect
    if is_late:
        monkeypatch.setattr(HTTPSConnection, "connect", connect)
    told = refusal(served(asks=True), **ca)
    assert "it asks for a client's certificate, and none is given" in told
    assert "Give the certificate and its key with value.registry.ssl.keystore.location" in told


def test_a_client_with_somebody_else_s_certificate_is_told_so(
    served: Served, ca: dict[str, str], tmp_path: Path
) -> None:
    stranger = for_client(authority("another"), "ann")
    own = written(tmp_path / "own.pem", stranger.chain_pem + stranger.key_pem())
    told = refusal(served(asks=True), **ca, **{"ssl.keystore.location": str(own), "ssl.keystore.type": "PEM"})
    assert "it refused this client's certificate" in told
    assert "Compare the certificate in value.registry.ssl.keystore.location" in told


def test_a_certificate_of_another_host_is_refused_unless_that_is_said(
    served: Served, ca: dict[str, str], trusted: Certified
) -> None:
    server = served(certificate=for_server(trusted, hosts=("registry.example.org",)))
    told = refusal(server, **ca)
    assert "its certificate is not for this host" in told
    assert "set value.registry.ssl.endpoint.identification.algorithm to the empty text" in told
    assert schema(server, **ca, **{"ssl.endpoint.identification.algorithm": ""}) == '"string"'


def test_a_registry_that_speaks_no_tls_is_told(ca: dict[str, str]) -> None:
    with running() as server:
        server.url = server.url.replace("http:", "https:")
        assert "it does not speak TLS. Begin its address with http://" in refusal(server, **ca)
