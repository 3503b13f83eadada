"""The experiment: all tables of a file, and what must agree between them."""

from __future__ import annotations

from pydantic import Field, ValidationInfo, field_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.collective import Collective
from pyxsim.settings.network import Network
from pyxsim.settings.output import Output
from pyxsim.settings.system import System
from pyxsim.settings.traffic import Traffic
from pyxsim.settings.types import Table, Values
from pyxsim.settings.workload import Workload
from pyxsim.units import rounding_warnings


class Experiment(Table):
    """Everything that a run depends on."""

    network: Network = Field(description="The network.")
    system: System = Field(default_factory=System, description="Chunks, queues, schedules, algorithms.")
    collective: Collective | None = Field(default=None, description="One collective; or traffic, or a workload.")
    traffic: Traffic | None = Field(default=None, description="Open traffic; or a collective, or a workload.")
    workload: Workload | None = Field(default=None, description="A workload file; or a collective, or traffic.")
    output: Output = Field(default_factory=Output, description="What is recorded; the seed.")
    sweep: dict[str, Values] = Field(
        default_factory=dict,
        description="Not in this version, `run` refuses it. Key paths with lists of values, such as "
        '`"collective.size" = ["1 MiB", "2 MiB"]`.',
    )

    @field_validator("system")
    @classmethod
    def _one_per_dimension(cls, system: System, info: ValidationInfo) -> System:
        network = info.data.get("network")
        wanted = network.dimensions if network is not None else None
        faults = []
        for key in ("queues", "all_reduce", "reduce_scatter", "all_gather", "all_to_all"):
            value = getattr(system, key)
            if wanted is not None and isinstance(value, tuple) and len(value) != wanted:
                problem = f"the list has {len(value)} entries, the network {wanted} dimensions"
                faults.append(InputError(problem, key=key, allowed=f"one value for all, or a list of {wanted}"))
        raise_all(faults)
        return system

    @field_validator("traffic")
    @classmethod
    def _in_virtual_networks(cls, traffic: Traffic | None, info: ValidationInfo) -> Traffic | None:
        network = info.data.get("network")
        if traffic is None or network is None:
            return traffic
        there = len(getattr(network.router, "virtual_networks", None) or (0,))
        wanted = [(each.virtual_network or 0, each.key_of("virtual_network")) for each in traffic.resolved]
        wanted += [
            (each.replies.virtual_network, each.key_of("replies.virtual_network"))
            for each in traffic.resolved
            if each.replies
        ]
        faults = [
            InputError(
                f"there is no virtual network {number}, they count from 0; the network has {there}",
                key=key,
                allowed="an entry of network.router.virtual_networks, which may be [2, 2]",
            )
            for number, key in dict.fromkeys(wanted)
            if number >= there
        ]
        raise_all(faults)
        return traffic

    def warnings(self) -> list[str]:
        """One line for each time that rounding up to whole cycles makes longer by more than 1 %."""
        times = [
            ("system.endpoint_delay", self.system.endpoint_delay),
            ("system.reduction_delay", self.system.reduction_delay),
            ("output.window", self.output.window),
        ]
        return [*self.network.warnings(), *rounding_warnings(times, self.network.clock)]
