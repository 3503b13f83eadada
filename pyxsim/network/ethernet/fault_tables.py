"""[[faults]] as tables [[network.ethernet.links]], which the Ethernet backend has (docs/faults.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from pyxsim.errors import InputError, raise_all
from pyxsim.network.fault_targets import timed_links
from pyxsim.network.fault_times import NEVER
from pyxsim.network.link_paths import link_rates_of
from pyxsim.settings import Experiment, Network
from pyxsim.settings.ethernet import LinkFault
from pyxsim.settings.failure import Fault
from pyxsim.topology.topology import Topology
from pyxsim.units import Cycles

MOST_TABLES = 10_000
_PLACE = re.compile(r"network\.ethernet\.links\[(\d+)\]")


def with_faults(experiment: Experiment, topology: Topology) -> tuple[Network, list[int]]:
    """Return the settings of the network with a table for each link and time of each fault.

    Returns
    -------
    network
        The settings.
    numbers
        The number of the fault of each table behind those of the experiment.

    Raises
    ------
    InputError
        For faults that the backend does not model.
    """
    network = experiment.network
    tables: list[LinkFault] = []
    numbers: list[int] = []
    for number, fault in enumerate(experiment.faults):
        if fault.affects_links:
            key = f"faults[{number}]"
            raise_all(list(_not_modelled(fault, key)))
            more = list(_tables(experiment, topology, fault, key, MOST_TABLES - len(tables)))
            tables += more
            numbers += [number] * len(more)
    if not tables:
        return network, []
    links = (*network.ethernet.links, *tables)
    return network.model_copy(update={"ethernet": network.ethernet.model_copy(update={"links": links})}), numbers


def renamed(error: InputError, experiment: Experiment, numbers: list[int]) -> InputError:
    """Return an error of a table with the key of its fault."""
    found = _PLACE.match(error.key or "")
    first = len(experiment.network.ethernet.links)
    if found is None or int(found[1]) < first:
        return error
    key = f"faults[{numbers[int(found[1]) - first]}]{(error.key or '')[found.end() :]}"
    return InputError(error.problem, key=key, allowed=error.allowed, given=error.given)


def _not_modelled(fault: Fault, key: str) -> Iterator[InputError]:
    if fault.latency is not None:
        problem = "the Ethernet backend does not change latencies during a run"
        yield InputError(problem, key=f"{key}.latency", allowed="with --backend packet")
    if fault.flit_error_rate:
        problem = "the Ethernet backend has no flits"
        yield InputError(problem, key=f"{key}.flit_error_rate", allowed="bit_error_rate, or --backend packet")
    if fault.in_flight == "lose":
        problem = "packets on the wire arrive in the Ethernet backend; those sent later are lost"
        yield InputError(problem, key=f"{key}.in_flight", allowed="'drain', or --backend packet")
    if fault.repeats and fault.until is None:
        problem = "the Ethernet backend repeats faults up to a given time"
        yield InputError(problem, key=f"{key}.until", allowed="a time such as '1 ms', or --backend packet")


def _tables(experiment: Experiment, topology: Topology, fault: Fault, key: str, most: int) -> Iterator[LinkFault]:
    rates, clock = link_rates_of(topology, experiment.network)[0], experiment.network.clock
    occurrences = (
        (begin, times.length, link)
        for times, links in timed_links(experiment, topology, fault, key)
        for begin in times.all_begins()
        for link in links.tolist()
    )
    for number, (begin, length, link) in enumerate(occurrences):
        if number >= most:
            problem = f"a table of [[network.ethernet.links]] for each link and time: more than {MOST_TABLES}"
            raise InputError(problem, key=key, allowed="fewer links or times")
        factor = Fraction(1)
        if fault.bandwidth is not None:
            factor = min(factor, fault.bandwidth / (rates[link] * clock))
        yield LinkFault(
            link=topology.counted_link_name[link],
            both_directions=False,
            rate_factor=factor,
            bit_error_rate=Fraction(fault.error_of_bit(1)),
            down=fault.down,
            start=Cycles(begin),
            end=None if length >= NEVER else Cycles(begin + length),
        )
