"""A part of a user's that returns something wrong ends in one line that names its file, never as a bug of pyxsim."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.inputs import Command

RUN = ("run", "mine.toml", "--library", "mine")
COLLECTIVE = '[collective]\nkind = "all-reduce"\nsize = "4 KiB"\n'
RING = '[network]\ntopology = "ring"\nshape = [4]\n'
OWN = '[network]\ntopology = "broken-test"\nshape = [4]\n' + COLLECTIVE
BLOCK = '[[network.dims]]\nblock = "broken-test"\nnpus = 4\n' + COLLECTIVE
ROUTED = RING + '[network.router]\nrouting = "broken-test"\n' + COLLECTIVE
ALGORITHM = RING + '[system]\nall_reduce = "broken-test"\n' + COLLECTIVE
READ = RING + '[workload]\nfile = "tasks.broken"\n'
TRAFFIC = RING + '[traffic]\npattern = "broken-test"\nload = 0.1\nwarmup = 10\nmeasure = 100\n'
PLAIN = RING + COLLECTIVE
ON = (*RUN, "--backend", "broken-test")

REGISTER = {
    "topologies": "from pyxsim.registry import topologies\n@topologies.register('broken-test')\ndef part(shape):\n",
    "blocks": "from pyxsim.registry import blocks\n@blocks.register('broken-test')\ndef part(npus):\n",
    "routings": "from pyxsim.registry import routings\n@routings.register('broken-test')\ndef part(wires):\n",
    "collectives": "from pyxsim.registry import collectives\n"
    "@collectives.register('broken-test')\ndef part(kind, n):\n",
    "readers": "from pyxsim.registry import readers\n"
    "@readers.register('broken-test', endings=('.broken',))\ndef part(name, context):\n",
    "patterns": "from pyxsim.registry import patterns\n@patterns.register('broken-test')\ndef part(context):\n",
    "checks": "from pyxsim.study.check import Finding, checks\n@checks.register('broken-test')\ndef part(prepared):\n",
    "panels": "from pyxsim.reports.html import Panel, html_panel\n"
    "@html_panel('broken-test', section='links')\ndef part(result, detail):\n",
    "backends": "from pyxsim.plugins import backends\nfrom pyxsim.network.protocol import Backend, Capabilities\n"
    "@backends.register('broken-test')\nclass Part(Backend):\n",
}
SETTINGS = {
    "topologies": OWN,
    "blocks": BLOCK,
    "routings": ROUTED,
    "collectives": ALGORITHM,
    "readers": READ,
    "patterns": TRAFFIC,
    "checks": PLAIN,
    "panels": PLAIN,
    "backends": PLAIN,
}
NET = "    from pyxsim.topology import graph_network\n    from pyxsim.topology.routings import graph_routings\n"
STUB = """    def __init__(self, topology, settings, **options):
        super().__init__(topology, settings, **options)
    now = 0
    def send_many(self, src, dst, nbytes, plane, at, tag=0):
        {send}
    def advance(self, until, *, slack=0):
        {advance}
"""
PATTERN = "    from pyxsim.traffic import RandomPattern\n    return "
OPEN = "    capabilities = Capabilities(open_traffic=True)\n"
RETURNED = ["None", "1", "'text'", "[]"]
CASES = [
    *(
        (shelf, f"    return {value}\n")
        for shelf in REGISTER
        if shelf not in ("checks", "backends")
        for value in RETURNED
    ),
    *((shelf, f"    return {value}\n") for shelf in ("checks",) for value in RETURNED[1:3]),
    *((shelf, "    return 1 / 0\n") for shelf in REGISTER if shelf != "backends"),
    *((shelf, "    return part.missing\n") for shelf in REGISTER if shelf != "backends"),
    ("topologies", NET + "    return graph_network('x', range(4), [(0, 1), (1, 2), (2, 3)], None)\n"),
    ("topologies", NET + "    return graph_network('x', ['a'], [(0, 1)], graph_routings('minimal'))\n"),
    ("topologies", NET + "    return graph_network('x', range(4), [(0, 1)], {'own': lambda wires: None})\n"),
    ("topologies", NET + "    return graph_network('x', range(4), [(0, 1)], {'own': lambda w: w.relation(None)})\n"),
    ("blocks", "    from pyxsim.topology import Block\n    return Block.from_links('x', npus, [(0, 'b')])\n"),
    ("routings", "    import numpy as np\n    return wires.relation(np.zeros((1, 1), bool))\n"),
    ("routings", "    return wires.relation([1, 2])\n"),
    ("collectives", "    from pyxsim.collective.schedule import Schedule\n    return Schedule\n"),
    ("readers", "    from pyxsim.workload.graph import GraphBuilder\n    return GraphBuilder(4)\n"),
    (
        "patterns",
        PATTERN + "RandomPattern(lambda rng, src: None, lambda: None)\n",
    ),
    (
        "patterns",
        PATTERN + "RandomPattern(lambda rng, src: src + 99, lambda: None)\n",
    ),
    (
        "patterns",
        PATTERN + "RandomPattern(lambda rng, src: src[:0], lambda: None)\n",
    ),
    ("patterns", PATTERN + "RandomPattern(None, None)\n"),
    ("checks", "    return Finding(1, 2)\n"),
    ("checks", "    return Finding([('one',)], {})\n"),
    ("checks", "    return Finding([(1, object())], {'a': object()})\n"),
    ("panels", "    return Panel('x', 'y', 3)\n"),
    ("panels", "    return Panel('x', None, {'data': object()})\n"),
    ("backends", STUB.format(send="return None", advance="return None")),
    ("backends", STUB.format(send="return 0", advance="return None")),
    ("backends", STUB.format(send="return 'a'", advance="return [], []")),
    ("backends", STUB.format(send="return 0", advance="return [99], [5]")),
    ("backends", STUB.format(send="return 0", advance="return {}.a")),
    ("backends", "    capabilities = 5\n" + STUB.format(send="return 0", advance="return [0], [5]")),
    (
        "backends",
        OPEN + STUB.format(send="return 0", advance="return 1"),
    ),
]


@pytest.mark.parametrize(("shelf", "body"), CASES)
def test_a_broken_part_is_named_by_its_file(pyxsim: Command, folder: Path, shelf: str, body: str) -> None:
    path = folder / "mine" / ("topologies" if shelf == "blocks" else shelf) / "broken_part.py"
    path.parent.mkdir(parents=True)
    path.write_text(REGISTER[shelf] + body, encoding="utf-8")
    (folder / "mine.toml").write_text(SETTINGS[shelf], encoding="utf-8")
    (folder / "tasks.broken").write_text("", encoding="utf-8")
    words = {"checks": ("check", *RUN[1:]), "backends": ON}.get(shelf, RUN)
    if shelf == "panels":
        assert pyxsim(*RUN, "-o", "out.h5").code == 0
        words = ("report", "out.h5", "--library", "mine", "-o", "out.html")
    ended = pyxsim(*words)
    assert "bug of pyxsim" not in ended.err
    if ended.code:
        assert ended.code in (2, 3)
        assert any(str(path) in line for line in ended.lines), ended.lines
        assert "Traceback" not in ended.err
