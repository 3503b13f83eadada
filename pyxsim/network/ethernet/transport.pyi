from collections.abc import Mapping
from typing import Any, ClassVar

from pyxsim.settings import Network

class Transport:
    options: ClassVar[dict[str, Any]]
    values: dict[str, Any]
    error: Exception | None
    header_bytes: int
    reply_bytes: int
    telemetry: int
    rules: dict[str, Any]
    def __init__(self, name: str = "none", options: Mapping[str, Any] | None = None) -> None: ...
    def adapt(self, network: Network) -> Network: ...
