"""`pyxsim astra`: its options, those of ASTRA-sim's command line as used in run scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.options import File, Plot, Shared, command, count

SCRIPT = "garnet_synth_traffic.py"  # the script that gem5 runs; ignored here
LISTS = ("--units-count", "--links-count", "--link-bandwidth", "--link-latency")
RENDEZVOUS = "--rendezvous-protocol"


class AstraCommand(TyperCommand):
    """Accepts lists as several words after an option, and a flag without a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words in the order that Click needs."""
        return super().parse_args(ctx, in_order(args))


def in_order(words: Sequence[str]) -> list[str]:
    """Rewrite `--units-count 2 8 4` as `--units-count=2,8,4`, and give a flag its value.

    Drops empty words, which unset variables of scripts leave, and gem5's script.
    """
    rewritten: list[str] = []
    rest = [word for word in words if word and not word.endswith(SCRIPT)]
    while rest:
        word = rest.pop(0)
        name, given, value = word.partition("=")
        if name in LISTS:
            values = [value] if given else []
            while rest and not rest[0].startswith("-"):
                values.append(rest.pop(0))
            rewritten.append(f"{name}={','.join(values)}")
        elif word == RENDEZVOUS:
            takes = bool(rest) and not rest[0].startswith("-")
            rewritten.append(f"{word}={rest.pop(0) if takes else 'true'}")
        else:
            rewritten.append(word)
    return rewritten


def astra(
    out: CommandOutput,
    shared: Shared,
    network_configuration: Annotated[
        str,
        typer.Option(
            "--network-configuration",
            "--net",
            metavar="FILE",
            help="Network: a text (Garnet, or ns-3), JSON (version 1) or YAML (version 2).",
        ),
    ],
    system_configuration: Annotated[
        str | None,
        typer.Option(
            "--system-configuration", "--sys", metavar="FILE", help="System: text of version 1, or JSON of version 2."
        ),
    ] = None,
    workload_configuration: Annotated[
        str | None,
        typer.Option(
            "--workload-configuration",
            "--workload",
            metavar="FILE",
            help="Workload: text of version 1, or the PREFIX of Chakra traces. Without system and workload: the flows "
            "of ns-3's FLOW_FILE.",
        ),
    ] = None,
    logical_topology_configuration: Annotated[
        str | None, typer.Option(metavar="FILE", help="JSON file with the logical dimensions, for ns-3's networks.")
    ] = None,
    comm_group_configuration: Annotated[
        str | None, typer.Option(metavar="FILE", help="JSON file with the groups of NPUs that traces name.")
    ] = None,
    remote_memory_configuration: Annotated[
        str | None, typer.Option(metavar="FILE", help="JSON file with the remote memory.")
    ] = None,
    path: Annotated[str | None, typer.Option(metavar="DIR/", help="Folder of the results and of EndToEnd.csv.")] = None,
    run_name: Annotated[str | None, typer.Option(metavar="NAME", help="The result is DIR/NAME.h5.")] = None,
    num_passes: Annotated[str, typer.Option(metavar="N", help="Passes of the workload.")] = "1",
    comm_scale: Annotated[str, typer.Option(metavar="X", help="Factor for the bytes of all communication.")] = "1",
    compute_scale: Annotated[str, typer.Option(metavar="X", help="Factor for every compute time.")] = "1",
    injection_scale: Annotated[str, typer.Option(metavar="X", help="Factor for the endpoint delay.")] = "1",
    num_queues_per_dim: Annotated[
        str | None,
        typer.Option(metavar="N", help="Queues of every dimension; by default 1, over Garnet one for each ring."),
    ] = None,
    units_count: Annotated[
        str | None,
        typer.Option(metavar="N N ...", help="NPUs of each dimension; replaces the value in the network JSON."),
    ] = None,
    links_count: Annotated[
        str | None, typer.Option(metavar="N N ...", help="Links of an NPU; replaces the value in the network JSON.")
    ] = None,
    link_bandwidth: Annotated[
        str | None, typer.Option(metavar="X X ...", help="GB/s of a link; replaces the value in the network JSON.")
    ] = None,
    link_latency: Annotated[
        str | None, typer.Option(metavar="X X ...", help="ns of a link; replaces the value in the network JSON.")
    ] = None,
    rendezvous_protocol: Annotated[
        str | None, typer.Option(metavar="BOOL", help="Whether receivers request messages (version 2 only).")
    ] = None,
    backend: Annotated[
        str | None, typer.Option(metavar="NAME", help="Network model; by default that of the network file.")
    ] = None,
    total_stat_rows: Annotated[str, typer.Option(metavar="N", help="Rows of each layer in EndToEnd.csv.")] = "1",
    stat_row: Annotated[str, typer.Option(metavar="N", help="Index of the row that this run fills.")] = "0",
    logging_folder: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder of log.log, a copy of stdout.")
    ] = None,
    logging_configuration: Annotated[
        str | None, typer.Option(metavar="WORD", help="Only 'empty' is accepted: there are no log levels.")
    ] = None,
    synthetic: Annotated[str | None, typer.Option(metavar="WORD", help="Only gem5's 'training' is accepted.")] = None,
    file: File = None,
    plot: Plot = None,
    show: Annotated[bool, typer.Option("--show", help="Print the experiment (TOML); run nothing.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse routes that can deadlock.")] = False,
) -> None:
    """Simulate the files of ASTRA-sim 1 and 2.

    A network text of Garnet is for the packet backend, one of ns-3 for the Ethernet backend; JSON and YAML are for the
    analytical one. As with ASTRA-sim, rings that
    can deadlock are run all the same, with a warning. docs/formats_astra.md tells every key.
    """
    from pyxsim.compat.astra.command_run import AstraFiles, Words, run_astra
    from pyxsim.reports.files import Outputs

    run_astra(
        out,
        AstraFiles(
            network_configuration,
            system_configuration,
            workload_configuration,
            comm_group_configuration,
            remote_memory_configuration,
            logical_topology_configuration,
        ),
        Outputs(file, plot),
        Words(
            path=path,
            run_name=run_name,
            passes=num_passes,
            comm_scale=comm_scale,
            compute_scale=compute_scale,
            injection_scale=injection_scale,
            queues=num_queues_per_dim,
            dimensions={
                "units-count": units_count,
                "links-count": links_count,
                "link-bandwidth": link_bandwidth,
                "link-latency": link_latency,
            },
            rendezvous=rendezvous_protocol,
            backend=backend,
            overrides=tuple(shared.overrides),
            rows=count(total_stat_rows, "--total-stat-rows"),
            row=count(stat_row, "--stat-row", 0),
            log=logging_folder,
            log_settings=logging_configuration,
            synthetic=synthetic,
            strict=strict,
        ),
        show_only=show,
    )


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "settings no_skip threads json quiet", cls=AstraCommand)(astra)
