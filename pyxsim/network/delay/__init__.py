"""The delay models, backends without packets: `analytical` has no congestion, `analytical-congestion` has queues."""

from pyxsim.plugins import Target, backends

backends.register("analytical", cost=1)(Target("pyxsim.network.delay.analytical:AnalyticalNetwork"))
backends.register("analytical-congestion", cost=2)(Target("pyxsim.network.delay.congestion:CongestionNetwork"))
