"""The backends that delay whole messages: `analytical` without congestion, `analytical-congestion` with queues."""

from pyxsim.network.delay import analytical as analytical
from pyxsim.network.delay import congestion as congestion
