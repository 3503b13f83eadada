"""The transport that [network.ethernet] names: compiled, or a class of a user."""

from __future__ import annotations

import inspect
from typing import Any

from pyxsim.errors import InputError
from pyxsim.library import file_of
from pyxsim.network.ethernet.transport import Transport
from pyxsim.network.ethernet.uec.uec_transports import UecTransport
from pyxsim.network.ethernet.user_transport import UserTransport
from pyxsim.plugins import transports
from pyxsim.settings.ethernet import Ethernet


def make_transport(ethernet: Ethernet) -> Transport | UecTransport:
    """Return the transport of an experiment. Raises InputError."""
    name = ethernet.transport
    if name not in transports:
        raise transports.unknown(name, key="network.ethernet.transport")
    registered: Any = transports.get(name)
    if inspect.isclass(registered) and issubclass(registered, (Transport, UecTransport)):
        return registered(name, ethernet.transport_options)
    file = file_of(registered)
    if not inspect.isclass(registered):
        raise InputError(f"transport '{name}' is not a class", file=file, allowed="a class")
    try:
        user = registered(**ethernet.transport_options)
    except TypeError as error:
        raise InputError(f"transport '{name}': {error}", key="network.ethernet.transport_options", file=file) from None
    return UserTransport(name, user, file)
