"""Makes the stores in ``tests/vectors/stores`` with Java's own ``keytool``, which a JRE in a wheel does not have.

    python -m tests.vectors.java_stores [path of keytool]

``client.pem`` has what is in them: the client's key, its chain, and the authority that the trust stores trust.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.certificates import Certified, authority, for_client

FOLDER = Path(__file__).parent / "stores"
PASSWORD = "store-pass"
KEY_PASSWORD = "key-pass"


def _keytool(*arguments: str | Path) -> None:
    tool = sys.argv[1] if len(sys.argv) > 1 else shutil.which("keytool") or "keytool"
    subprocess.run([tool, *map(str, arguments), "-storepass", PASSWORD], check=True)


def _trust(root: Certified, name: str, store_type: str, work: Path) -> None:
    source = work / "root.crt"
    source.write_text(root.pem)
    _keytool(
        *("-importcert", "-noprompt", "-alias", "authority-0", "-file", source),
        *("-keystore", work / name, "-storetype", store_type),
    )


def _keys(client: Certified, name: str, key_password: str, work: Path) -> None:
    source = work / "client.p12"
    source.write_bytes(client.pkcs12(PASSWORD))
    _keytool(
        *("-importkeystore", "-noprompt", "-srckeystore", source, "-srcstoretype", "PKCS12", "-srcalias", "client"),
        *("-srcstorepass", PASSWORD, "-destkeystore", work / name, "-deststoretype", "JKS"),
        *("-destkeypass", key_password),
    )


def main() -> None:
    """Replace all of them."""
    root = authority("root")
    between = authority("between", root)
    client = for_client(between, "client")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _trust(root, "trust.jks", "JKS", work)
        _trust(root, "trust.p12", "PKCS12", work)
        _keys(client, "keys.jks", KEY_PASSWORD, work)
        _keys(client, "same.jks", PASSWORD, work)
        FOLDER.mkdir(exist_ok=True)
        for name in ("trust.jks", "trust.p12", "keys.jks", "same.jks"):
            shutil.copy(work / name, FOLDER / name)
    (FOLDER / "client.pem").write_text(client.key_pem() + client.chain_pem + root.pem)


if __name__ == "__main__":
    main()
