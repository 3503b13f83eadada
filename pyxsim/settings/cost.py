"""[cost]: what the parts of a system cost and which power they draw. docs/cost.md has the model and the catalogue."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

from pyxsim.errors import InputError
from pyxsim.settings.estimate import (
    MILLIMETRES,
    EnergyPerBit,
    IdleShare,
    Overhead,
    Power,
    Price,
    PricePerByte,
    PricePerEnergy,
    PricePerRate,
)
from pyxsim.settings.npu import Share
from pyxsim.settings.types import (
    Bandwidth,
    Bytes,
    Flag,
    Frequency,
    OneOrMany,
    Options,
    Table,
    Word,
    number,
    shown,
    whole,
    written,
)
from pyxsim.units import format_quantity, parse_quantity

_KEY = "An entry of the catalogue (`pyxsim list {}`). Keys of this table replace its figures."


def _length(value: object) -> Fraction:
    length = parse_quantity(value, MILLIMETRES, "length", "2 mm")
    if not length:
        raise InputError(f"{shown(value)} is zero", allowed="a length above zero, such as '2 mm'")
    return length


_Length = Annotated[
    Fraction,
    PlainValidator(_length),
    PlainSerializer(lambda value: format_quantity(value, MILLIMETRES), return_type=str),
    WithJsonSchema({"type": "string", "format": "length", "examples": ["2 mm"]}),
]


class LinkCost(Table):
    """The links of one dimension (kind of links)."""

    type: Word | None = Field(default=None, description=_KEY.format("links"))
    energy: EnergyPerBit | None = Field(default=None, description="Energy of a bit that crosses a busy link.")
    idle: IdleShare | None = Field(
        default=None, description="Power of a link without traffic, as a share of its power at full rate."
    )
    price: PricePerRate | None = Field(
        default=None, description="Price of a link with both directions, per bandwidth of one direction."
    )
    nic: PricePerRate | None = Field(
        default=None,
        description="Price of the network interface of an NPU, per bandwidth of its links in one direction. "
        "Default: 0, unless the catalogue has one.",
    )


class SwitchCost(Table):
    """The switches of one dimension, or of the whole network."""

    type: Word | None = Field(default=None, description=_KEY.format("switches"))
    capacity: Bandwidth | None = Field(
        default=None, description="Bandwidth of all inputs of one switch chip, in one direction."
    )
    radix: Annotated[int, *whole(4, 2**16)] | None = Field(
        default=None,
        description="Number of ports. A faster port of the network takes several, also of chips in parallel; a switch "
        "with more ports than a chip is a folded Clos network of several stages.",
    )
    whole_chips: Flag = Field(
        default=False, description="Whether each switch takes whole chips. Else small switches share a chip."
    )
    power: Power | None = Field(default=None, description="Power at full rate.")
    idle: IdleShare | None = Field(default=None, description="Power without traffic, as a share of `power`.")
    price: Price | None = Field(default=None, description="Price.")


class PartCost(Table):
    """A part that every NPU has once: the NPU itself, or its share of a host."""

    type: Word | None = Field(
        default=None, description="An entry of the catalogue; keys of this table replace its figures."
    )
    power: Power | None = Field(default=None, description="Power at work.")
    idle: Power | None = Field(default=None, description="Power without work.")
    price: Price | None = Field(default=None, description="Price.")


class MemoryCost(Table):
    """Remote memory."""

    type: Word | None = Field(default=None, description=_KEY.format("memories"))
    capacity: Bytes = Field(default=written("0 B"), description="Capacity per NPU.")
    energy: EnergyPerBit | None = Field(default=None, description="Energy of a bit that is loaded or stored.")
    price: PricePerByte | None = Field(default=None, description="Price.")


class NocCost(Table):
    """Routers and wires on a chip, with the model of BookSim2, in place of `links` and `switch`."""

    technology: Word = Field(default="booksim-32nm", description="An entry of `pyxsim list technologies`.")
    wire: _Length | None = Field(
        default=None, description="Length of a link per cycle of its latency. Default: that of the technology."
    )
    clock: Frequency | None = Field(
        default=None,
        description="Clock for which wires and flip-flops are designed. Default: network.clock.",
    )
    parameters: Options = Field(
        default_factory=dict, description="Parameters of the technology by name, which replace its own."
    )


class Cost(Table):
    """Prices and powers. The results then have the energy of the run."""

    npu: PartCost | None = Field(
        default=None,
        description="The NPUs, an entry of `pyxsim list npus`. Default: the entry of system.npu.device, if there is "
        "one; else NPUs are not counted.",
    )
    host: PartCost | None = Field(
        default=None,
        description="Each NPU's share of its host: processors, fans, network interfaces; an entry of "
        "`pyxsim list hosts`. Default: not counted.",
    )
    links: OneOrMany[LinkCost] | None = Field(
        default=None,
        description="The links: one table for all, or one table [[cost.links]] for each dimension (kind of links). "
        'Default: "board".',
    )
    switch: OneOrMany[SwitchCost] | None = Field(
        default=None,
        description="The switches: one table for all, or one table [[cost.switch]] for each dimension (kind of "
        'links); a switch with links of several kinds is of the last one. Default: "tomahawk-5".',
    )
    router: EnergyPerBit = Field(
        default=written("0 pJ/bit"),
        description="Energy of a bit that passes a router inside an NPU. Default: part of the power of the NPU.",
    )
    memory: MemoryCost | None = Field(default=None, description="Remote memory. Default: not counted.")
    noc: NocCost | None = Field(
        default=None, description="Routers and wires on a chip; replaces `links` and `switch`. Default: none."
    )
    electricity: PricePerEnergy | None = Field(
        default=None, description="Price of electricity. Default: that of the industry in the United States."
    )
    pue: Overhead | None = Field(
        default=None,
        description="Power usage effectiveness: energy of the data centre over that of its computers. Default: from "
        "that of an efficient data centre to that of an average one.",
    )
    years: Annotated[Fraction, *number(1, 100)] = Field(
        default=Fraction(4), description="Time over which the price is paid off, in years."
    )
    used: Share = Field(default=written("1"), description="Share of that time in which the system works on such runs.")

    def of_kind(self, key: str, kind: int, kinds: int) -> tuple[Any, str]:
        """Return the table of a kind of links from `links` or `switch`, and its key; None without a table.

        Raises InputError if the list has another number of tables than the network has kinds.
        """
        tables = getattr(self, key)
        if not isinstance(tables, tuple):
            return tables, f"cost.{key}"
        if len(tables) == 1:
            return tables[0], f"cost.{key}[0]"
        if len(tables) != kinds:
            problem = f"the list has {len(tables)} tables, but the network has {kinds} kinds of links"
            raise InputError(problem, key=f"cost.{key}", allowed=f"one table for all, or a list of {kinds}")
        return tables[kind], f"cost.{key}[{kind}]"
