"""The network text of ASTRA-sim 1's Garnet backend as a table [network].

Every key has an effect, or is refused with a reason, or is one that ASTRA-sim reads and never uses
(docs/formats_astra.md). Units: widths in bits per cycle, latencies in cycles of 1 ns, sizes in bytes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from pyxsim.compat.astra.files.text import Text
from pyxsim.compat.astra.garnet_credit import credit_lead
from pyxsim.file_entries import PathLike

SERDES = 4  # cycles per hop of Garnet's two serialisers: 1 + 1 on each side


def network_tables(path: PathLike) -> tuple[dict[str, Any], int]:
    """Return the table [network] of a Garnet network text, and the number of dimensions. Raises InputError."""
    text = Text(path)
    npus, packages = text.count("num-npus"), text.count("num-packages")
    if text.is_valid("num-npus", "num-packages") and npus % packages:
        text.fault(
            "num-packages", f"{npus} NPUs cannot be divided evenly among {packages} packages", "a divisor of num-npus"
        )
    build = text.choice("topology", {"Torus3D": _torus, "NV_Switch": _switch})
    text.unused("local-packet-size", "local-link-efficiency", "package-link-efficiency")
    if build is None:
        text.unused(
            "package-rows", "local-rings", "vertical-rings", "horizontal-rings", "links-per-tile", "routing-algorithm"
        )
        shape: list[int] = [npus]
        options: dict[str, int] = {}
    else:
        shape, options = build(text, npus // packages or 1, packages)
    flit = text.count("flit-width", 128, least=8)
    if flit % 8:
        text.fault("flit-width", f"{flit} bits are not whole bytes", "a multiple of 8")
    local = _phits(text, "tile-link-width", flit)
    package = _phits(text, "package-link-width", flit)
    packet = text.count("package-packet-size", 64)
    latency = text.count("local-link-latency", 1), text.count("package-link-latency", 1)
    stages = text.count("router-latency", 1)
    # ASTRA-sim has 16 in all virtual networks but the third.
    vcs, depth = text.count("vcs-per-vnet", 4), text.count("buffers-per-vc", 16)
    text.finish()
    others = len(shape) - 1
    flits = -(-packet * 8 // flit)
    phits = [local] + [package] * others
    # A packet smaller than a flit is one flit.
    flit_bytes = flit // 8
    return {
        "topology": "garnet-torus" if build is _torus else "garnet-switch",
        "shape": shape,
        "options": options,
        "clock": "1 GHz",
        "flit": f"{flit_bytes} B",
        "packet": f"{max(packet, flit_bytes)} B",
        "pad_packets": True,
        "bandwidth": [_rate(Fraction(flit_bytes, k)) for k in phits],
        "latency": [f"{latency[0]} ns"] + [f"{latency[1]} ns"] * others,
        "lane_bandwidth": _rate(Fraction(flit_bytes)),
        "lane_latency": f"{latency[0]} ns",
        "router": {
            "pipeline": "garnet",
            "latency": stages,
            "vcs": vcs,
            "buffer": depth,
            "vc_reuse": "drained",
            "arbiter": "step",
            "injection": "interleaved",
            "ordered": True,
            "output_queue": True,
            "serdes": SERDES,
            "serdes_credit": [SERDES + k - 1 - credit_lead(k, flits) for k in phits],
            "routing": "ring",
        },
    }, len(shape)


def _torus(text: Text, local: int, packages: int) -> tuple[list[int], dict[str, int]]:
    rows = text.count("package-rows", 2)
    if text.is_valid("num-packages", "package-rows") and packages % rows:
        text.fault("package-rows", f"{packages} packages do not fill {rows} rows", "a divisor of num-packages")
    text.choice("routing-algorithm", {"Ring_XY": True}, "table")
    text.unused("links-per-tile")
    options = {f"{name}_rings": text.count(f"{name}-rings", 1) for name in ("local", "horizontal", "vertical")}
    return [local, packages // rows or 1, rows], options


def _switch(text: Text, local: int, packages: int) -> tuple[list[int], dict[str, int]]:
    text.choice("routing-algorithm", {"AllToAll": True}, "table")
    text.unused("package-rows", "vertical-rings", "horizontal-rings")
    switches = text.count("links-per-tile", 1)
    if switches > 1:
        text.fault(
            "links-per-tile",
            f"with {switches} switches Garnet sends each packet of an NPU over the next one in turn, and pyxsim those "
            "of a queue over one (18 % apart in the measured run, with 4)",
            "1; or topology = 'garnet-switch' in an experiment",
        )
    return [local, packages], {"local_rings": text.count("local-rings", 1), "links_per_tile": switches}


def _phits(text: Text, key: str, flit: int) -> int:
    """Cycles of a flit on a link of width `key`."""
    width = text.count(key, 128)
    if text.is_valid("flit-width", key) and width > flit:
        text.fault(
            key,
            f"a link of {width} bits is wider than the flit of {flit} bits: Garnet joins {-(-width // flit)} flits "
            "of a packet for it, each of which waits for the next, and pyxsim has no such links",
            "at most flit-width",
        )
    return max(1, -(-flit // width))


def _rate(bytes_per_ns: Fraction) -> str:
    """Format bytes per cycle of 1 GHz as a bandwidth."""
    return f"{bytes_per_ns.numerator * 10**9}/{bytes_per_ns.denominator} B/s"
