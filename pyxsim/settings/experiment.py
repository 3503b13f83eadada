"""The experiment: all tables of a file, and what must agree between them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainValidator, ValidationInfo, WithJsonSchema, field_validator

from pyxsim.errors import InputError, raise_all
from pyxsim.settings.collective import Collective
from pyxsim.settings.network import Network
from pyxsim.settings.output import Output
from pyxsim.settings.system import System
from pyxsim.settings.types import Table, Values
from pyxsim.settings.workload import Workload
from pyxsim.units import rounding_warnings


def _not_yet(value: object) -> None:
    if value is not None:
        raise InputError("this table is not in this version", allowed="[collective] or [workload]")


# Known names, so that nobody is told that [traffic] were a typing error.
NotYet = Annotated[None, PlainValidator(_not_yet), WithJsonSchema({"type": "null"})]


class Experiment(Table):
    """Everything that a run depends on."""

    network: Network = Field(description="The network.")
    system: System = Field(default_factory=System, description="Chunks, queues, schedules, algorithms.")
    collective: Collective | None = Field(default=None, description="One collective operation; or a workload.")
    traffic: NotYet = Field(default=None, description="Open traffic: not in this version.")
    workload: Workload | None = Field(default=None, description="A workload file; or one collective.")
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

    def warnings(self) -> list[str]:
        """One line for each time that rounding up to whole cycles makes longer by more than 1 %."""
        times = [
            ("system.endpoint_delay", self.system.endpoint_delay),
            ("system.reduction_delay", self.system.reduction_delay),
            ("output.window", self.output.window),
        ]
        return [*self.network.warnings(), *rounding_warnings(times, self.network.clock)]
