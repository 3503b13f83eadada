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


DRAWN = PATTERN + "RandomPattern(lambda rng, src: {}, lambda: [[0.25] * 4] * 4)\n"
MATRIX = PATTERN + "RandomPattern(lambda rng, src: src, lambda: {})\n"
NOTHING_SENT = "if not self.messages_sent: return [], []\n        "
ADVANCED = STUB.replace("{send}", "self.messages_sent += len(src); return 0").replace("{adv", NOTHING_SENT + "{adv")
# Every message arrives at once. `first`: what `send_many` returns; `reported`: the arrivals; `rest`: the queue after.
QUEUED = """    now, open = 0, ()
    def send_many(self, src, dst, nbytes, plane, at, tag=0):
        first = {first}
        self.open = [*self.open, *range(self.messages_sent, self.messages_sent + len(src))]
        self.messages_sent += len(src)
        return first
    def advance(self, until, *, slack=0):
        self.tick()
        reported = {reported}
        self.open = {rest}
        return reported, [self.now] * len(reported)
"""
LINES = [
    ("patterns", "    return 5\n", "the pattern 'broken-test' returned int; allowed: a Pattern"),
    ("patterns", DRAWN.format("src[:0]"), "the pattern 'broken-test' has destinations of shape (0,); allowed: shape"),
    ("patterns", DRAWN.format("src * 0.5"), "the pattern 'broken-test' returned an array of float64 from destinations"),
    ("patterns", DRAWN.format("['a'] * len(src)"), "the pattern 'broken-test' returned an array of <U1"),
    ("patterns", DRAWN.format("src + 4"), "the pattern 'broken-test' sends to node "),
    ("patterns", DRAWN.format("None"), "the pattern 'broken-test' returned NoneType from destinations(); allowed: ("),
    ("patterns", MATRIX.format("[[1] * 4]"), "has a matrix of shape (1, 4); allowed: shape (4, 4)"),
    ("patterns", MATRIX.format("[[1] * 4] * 4"), "has a matrix that holds no probabilities; allowed: rows of sum 1"),
    ("panels", "    return Panel('x', sheet=5)\n", "the panel 'broken-test' has sheet = 5; allowed: a Sheet, or None"),
    ("panels", "    return Panel('x', notes='n')\n", "has notes = 'n'; allowed: a list of texts"),
    ("panels", "    return Panel('x', height='9')\n", "has height = '9'; allowed: pixels, a whole number"),
    ("panels", "    return Panel(7)\n", "has title = 7; allowed: a text"),
    ("panels", "    return [Panel('x'), 7]\n", "the panel 'broken-test' returned int; allowed: a Panel, or several"),
    ("routings", "    return 7\n", "the routing 'broken-test' returned int; allowed: a Relation"),
    ("backends", "    capabilities = 5\n" + ADVANCED, "has capabilities = 5; allowed: Capabilities("),
    ("backends", OPEN + ADVANCED, "has the capability open_traffic and registers no class for it"),
    (
        "backends",
        STUB.format(send="return None", advance="return [], []"),
        "Part.send_many() returned None; allowed: the",
    ),
    *(
        (
            "backends",
            QUEUED.format(first=f"self.messages_sent + {more}", reported="self.open", rest="[]"),
            f"Part.send_many() returned {more}; allowed: the number of the first message, 0",
        )
        for more in (1, 2, 1000000)
    ),
    (
        "backends",
        QUEUED.format(first="self.messages_sent", reported="self.open", rest="self.open"),
        "Part.advance() returned message 0 again; allowed: each message once, when it arrives",
    ),
    (
        "backends",
        QUEUED.format(first="self.messages_sent", reported="self.open[:1] * 2", rest="[]"),
        "Part.advance() returned message 0 again; allowed: each message once, when it arrives",
    ),
    ("backends", ADVANCED.format(advance="return [-1], [5]"), "returned message -1; allowed: 4 messages were sent"),
    ("backends", ADVANCED.format(advance="return None"), "Part.advance() returned NoneType; allowed: (messages,"),
    ("backends", ADVANCED.format(advance="return 1, 2"), "Part.advance() returned int; allowed: two arrays int64[K]"),
    ("backends", ADVANCED.format(advance="return [0.5], [3]"), "returned an array of float64 and shape (1,)"),
    ("backends", ADVANCED.format(advance="return [[0]], [3]"), "returned an array of int64 and shape (1, 1)"),
    ("backends", ADVANCED.format(advance="return [0, 1], [3]"), "returned 2 messages and 1 cycles"),
    ("backends", ADVANCED.format(advance="return [99], [5]"), "returned message 99; allowed: 4 messages were sent"),
    ("backends", ADVANCED.format(advance="return [0, 1], [9, 8]"), "returned cycles 9 to 8; allowed: cycles in"),
    ("backends", ADVANCED.format(advance="return [0], [5]"), "left `now` at 0; allowed: the last cycle"),
]


@pytest.mark.parametrize(("shelf", "body"), CASES)
def test_a_broken_part_is_named_by_its_file(pyxsim: Command, folder: Path, shelf: str, body: str) -> None:
    path, words = put(pyxsim, folder, shelf, body)
    ended = pyxsim(*words)
    assert "bug of pyxsim" not in ended.err
    if ended.code:
        assert ended.code in (2, 3)
        assert any(str(path) in line for line in ended.lines), ended.lines
        assert "Traceback" not in ended.err


@pytest.mark.parametrize(("shelf", "body", "line"), LINES)
def test_a_wrong_return_is_one_line_with_what_is_expected(
    pyxsim: Command, folder: Path, shelf: str, body: str, line: str
) -> None:
    path, words = put(pyxsim, folder, shelf, body)
    ended = pyxsim(*words)
    assert (ended.code, len(ended.lines)) == (2, 1), ended.lines
    assert ended.lines[0].startswith(f"pyxsim: {path}:")
    assert line in ended.lines[0]


def put(pyxsim: Command, folder: Path, shelf: str, body: str) -> tuple[Path, tuple[str, ...]]:
    """Write the part and an experiment that uses it; return its file and the command."""
    path = folder / "mine" / ("topologies" if shelf == "blocks" else shelf) / "broken_part.py"
    path.parent.mkdir(parents=True)
    path.write_text(REGISTER[shelf] + body, encoding="utf-8")
    (folder / "mine.toml").write_text(SETTINGS[shelf], encoding="utf-8")
    (folder / "tasks.broken").write_text("", encoding="utf-8")
    if shelf == "panels":
        assert pyxsim(*RUN, "-o", "out.h5").code == 0
        return path, ("report", "out.h5", "--library", "mine", "-o", "out.html")
    return path, {"checks": ("check", *RUN[1:]), "backends": ON}.get(shelf, RUN)
