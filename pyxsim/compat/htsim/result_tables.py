"""The HDF5 file of a run of htsim: a row per flow, a row per port."""

from __future__ import annotations

import io
from collections.abc import Mapping

import h5py
import numpy as np
from numpy.typing import NDArray

from pyxsim.compat.htsim.simulation import HtsimRun
from pyxsim.results.hdf5 import VERSIONS, describe, put_file, write_table
from pyxsim.results.provenance import provenance
from pyxsim.results.table import Table, Variable

# Variables of /flows and /ports: unit and description.
FLOWS = {
    "flow": ("1", "number of the flow, in the order of the file"),
    "src": ("1", "sending host"),
    "dst": ("1", "receiving host"),
    "id": ("1", "htsim's flow id"),
    "bytes": ("bytes", "payload"),
    "packets": ("1", "data packets of the payload"),
    "start": ("ps", "time at which the flow starts; -1: did not happen in this run"),
    "end": ("ps", "time at which the sender knows that all has arrived; -1: did not happen in this run"),
    "sent": ("1", "new data packets sent"),
    "resent": ("1", "data packets sent again"),
    "rts": ("1", "requests to send"),
    "acks": ("1", "acknowledgments received"),
    "nacks": ("1", "negative acknowledgments received"),
    "pulls": ("1", "pulls received"),
    "delivered": ("1", "whole data packets that arrived at the receiver"),
    "marked": ("1", "marks of data packets by switches (ECN)"),
    "trimmed": ("1", "data packets whose payload a switch cut off"),
    "dropped": ("1", "whole data packets that a switch dropped"),
    "out_of_order": ("1", "data packets that arrived before an earlier one"),
    "duplicates": ("1", "data packets that the receiver had already"),
    "timeouts": ("1", "retransmission timeouts"),
    "window": ("bytes", "congestion window at the end of the run"),
}
PORTS = {
    "port": ("1", "number of the port"),
    "node": ("1", "node of the port; hosts come first, then ToRs, aggregation and core switches"),
    "peer": ("1", "node at the other end of the link"),
    "bytes": ("bytes", "bytes sent, with headers"),
    "packets": ("1", "packets sent, with acknowledgments"),
    "marked": ("1", "data packets marked"),
    "trimmed": ("1", "data packets trimmed"),
    "dropped": ("1", "packets dropped"),
    "depth": ("bytes", "most bytes in the data queue"),
}


def write_run(run: HtsimRun, path: str, words: str) -> None:
    """Write the flows and ports of a run; `words`: its command line. Raises InputError."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver=VERSIONS) as file:
        describe(file, {"title": f"pyxsim htsim {words}", **provenance()})
        write_table(file.create_group("flows"), _table("flow", FLOWS, _flow_columns(run)))
        write_table(file.create_group("ports"), _table("port", PORTS, _port_columns(run)))
    put_file(path, buffer.getbuffer())


def _table(dim: str, specs: Mapping[str, tuple[str, str]], columns: Mapping[str, NDArray[np.int64]]) -> Table:
    variables = {
        name: Variable((dim,), np.asarray(columns[name], np.int64), {"units": units, "long_name": text})
        for name, (units, text) in specs.items()
    }
    return Table(variables)


def _flow_columns(run: HtsimRun) -> dict[str, NDArray[np.int64]]:
    own = {
        "flow": [flow.number for flow in run.flows],
        "id": [flow.id for flow in run.flows],
        "start": [-1 if flow.start is None else flow.start for flow in run.flows],
    }
    return {**run.engine.flow_table(), **{name: np.array(values, np.int64) for name, values in own.items()}}


def _port_columns(run: HtsimRun) -> dict[str, NDArray[np.int64]]:
    counters, ports = run.engine.port_counters(), run.config.ports
    return {
        "port": np.arange(len(ports)),
        "node": ports[:, 0],
        "peer": ports[:, 1],
        "bytes": counters["sent_bytes"],
        "packets": counters["sent_packets"],
        "depth": counters["peak"],
        **{name: counters[name] for name in ("marked", "trimmed", "dropped")},
    }
