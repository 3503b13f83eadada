"""`pyxsim htsim`: reads the files, runs, prints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.functions import ReturnedOutput
from pyxsim.compat.htsim.connection_matrix import ConnectionMatrix, read_matrix
from pyxsim.compat.htsim.fat_tree import FatTree, generated, read_topology
from pyxsim.compat.htsim.htsim_options import HtsimOptions, read_options
from pyxsim.compat.htsim.result_tables import write_run
from pyxsim.compat.htsim.rules import oversubscribed
from pyxsim.compat.htsim.simulation import HtsimRun, us
from pyxsim.errors import InputError
from pyxsim.results.hdf5 import ENDS, check_hdf5
from pyxsim.textfile import read_text


def run_htsim(out: CommandOutput, words: Sequence[str]) -> None:
    """Run a command line of htsim_uec and print what it prints."""
    options = read_options(words)
    notes = list(options.notes)
    file = options.log if options.log is not None and options.log.endswith(ENDS) else None
    if file is not None:
        check_hdf5(file)
    elif options.log is not None:
        notes.append(f"-o {options.log}: htsim's log is not written; a name such as out.h5 receives the flows as HDF5")
    run = prepared(options)
    for note in notes:
        out.say(f"note: {note}")
    if not out.silent:
        for line in head(options, run):
            out.write(line + "\n")
    for line in run.lines():
        if not out.silent:
            out.write(line + "\n")
    if not out.silent:
        counts = " ".join(f"{name}: {value}" for name, value in run.totals().items())
        out.write(f"Done\n{counts}\n")
    if file is not None:
        write_run(run, file, " ".join(words))
    out.put(run.json())


def htsim(words: Sequence[str]) -> dict[str, Any]:
    """Simulate a command line of htsim_uec.

    Parameters
    ----------
    words
        Its options, such as ["-tm", "one.cm", "-sender_cc_only"].

    Returns
    -------
    The object that `pyxsim htsim --json` prints.

    Raises
    ------
    InputError, SimulationError
        As for `pyxsim.run`.
    """
    out = ReturnedOutput()
    run_htsim(out, words)
    return out.data


def prepared(options: HtsimOptions) -> HtsimRun:
    """Read the files of a command line and return its run. Raises InputError."""
    matrix = _matrix(options)
    tree = _tree(options, matrix)
    return HtsimRun(options, matrix, tree)


def _matrix(options: HtsimOptions) -> ConnectionMatrix:
    if options.matrix is None:
        if sys.stdin is None or sys.stdin.isatty():
            raise InputError("is missing", key="-tm", allowed="a connection matrix; without -tm stdin is read")
        text, file = sys.stdin.read(), "stdin"
    else:
        text, file = read_text(options.matrix, "a connection matrix"), options.matrix
    matrix = read_matrix(text, file, reuse=options.reuse)
    if options.nodes not in (0, matrix.nodes):
        raise InputError(f"{options.nodes} hosts", key="-nodes", allowed=f"{matrix.nodes}, as in {file}")
    return matrix


def _tree(options: HtsimOptions, matrix: ConnectionMatrix) -> FatTree:
    if options.topology is None:
        return generated(options, matrix.nodes)
    tree = read_topology(read_text(options.topology, "a topology file of htsim"), options.topology)
    if tree.hosts != matrix.nodes:
        problem = f"has {tree.hosts} hosts, but the connection matrix {matrix.nodes}"
        raise InputError(problem, file=options.topology)
    return tree


def head(options: HtsimOptions, run: HtsimRun) -> list[str]:
    """Return the lines before the first flow: those of htsim that scripts read."""
    rules, tree = run.rules, run.tree
    messages = sum(len(flow.messages) for flow in run.flows)
    lines = [
        f"Packet size (MTU) is {options.mtu}",
        f"Linkspeed set to {options.line // 10**9}Gbps",
        f"Nodes: {tree.hosts} Connections: {messages} Triggers: {len(run.triggers)} Failures: 0",
        f"Tier 0 QueueSize Down {rules.queue} bytes",
        f"Setting min RTO to {us(rules.min_rto)}",
        f"Setting ECN to parameters low {rules.ecn_low} high {rules.ecn_high} "
        f"enable on tor downlink {int(not options.receiver_cc)}",
        f"network_max_unloaded_rtt {us(rules.rtt)}",
        "Starting simulation",
    ]
    if oversubscribed(options, tree)[0] and not options.oversubscribed_cc:
        ratio = f"Oversubscription ratio is {tree.oversubscription}"
        lines.insert(3, f"Using simple receiver oversubscribed CC. {ratio}")
    return lines
