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
from pyxsim.units import format_duration, to_cycles


def _not_yet(value: object) -> None:
    if value is not None:
        raise InputError("this table is not in this version", allowed="[collective]")


# Known names, so that nobody is told that [traffic] were a typing error.
NotYet = Annotated[None, PlainValidator(_not_yet), WithJsonSchema({"type": "null"})]


class Experiment(Table):
    """Everything that a run depends on."""

    network: Network = Field(description="The network.")
    system: System = Field(default_factory=System, description="Chunks, queues, schedules, algorithms.")
    collective: Collective = Field(description="The collective operation.")
    traffic: NotYet = Field(default=None, description="Open traffic: not in this version.")
    workload: NotYet = Field(default=None, description="A training loop: not in this version.")
    output: Output = Field(default_factory=Output, description="What is recorded; the seed.")
    sweep: dict[str, Values] = Field(
        default_factory=dict,
        description='Key paths with lists of values, such as `"collective.size" = ["1 MiB", "2 MiB"]`.',
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
        lines = self.network.warnings()
        for key, time in (
            ("system.endpoint_delay", self.system.endpoint_delay),
            ("system.reduction_delay", self.system.reduction_delay),
            ("output.window", self.output.window),
        ):
            cycles, changed = to_cycles(time, self.network.clock)
            if changed:
                lines.append(f"{key}: {format_duration(time)} is simulated as {cycles} cycles of the clock")
        return lines
