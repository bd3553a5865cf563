"""The address at which a server listens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from directkafka.errors import OptionError
from directkafka.options.spec import shown

_ADDRESS: Final = re.compile(r"(?:(?P<host>[A-Za-z0-9.-]+)|\[(?P<v6>[0-9A-Fa-f:.]+)\]):(?P<port>[0-9]{1,5})")
_PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server listens; port 0 lets the system choose one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, *, option: str) -> Address:
        """An address of the form ``127.0.0.1:9464``, ``localhost:9464`` or ``[::1]:9464``.

        Args:
            text: the address.
            option: where it was given, for the message.

        Raises:
            OptionError: it is none.
        """
        match = _ADDRESS.fullmatch(text)
        if match is None or int(match["port"]) > _PORT_MAX:
            raise OptionError(option=option, reason=f"expected HOST:PORT, as 127.0.0.1:9464, found {shown(text)}")
        return cls(host=match["host"] or match["v6"], port=int(match["port"]))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
