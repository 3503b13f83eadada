"""`pyxsim astra` with files of ASTRA-sim's ns-3 front end, against runs of ASTRA-sim 518bd51 with ns-3 8fd3604."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim.cli.app import main
from validation.ns3_inputs import WORDS, config_text, flows_in, incast, leaf_spine, star, write_run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def finish_times(capsys: pytest.CaptureFixture[str], *words: str) -> set[int]:
    """Run `pyxsim astra` and return the times at which its NPUs finish."""
    assert main(["astra", *WORDS, *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    return {int(line.split("finished, ")[1].split()[0]) for line in lines if "sys[" in line and "finished" in line}


def fault(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["astra", *WORDS, *words]) == 2
    return capsys.readouterr().err.strip()


@pytest.mark.parametrize(
    ("rate", "nbytes", "mode", "expected", "alone"),
    [
        ("400Gbps", 1000, 12, 2044, 2060),
        ("400Gbps", 65536, 12, 3399, 3414),
        ("400Gbps", 1048576, 12, 24043, 24018),
        ("400Gbps", 1048576, 1, 24043, 24018),
        ("400Gbps", 1048576, 3, 25736, 24018),
    ],
)
def test_one_flow(
    folder: Path, capsys: pytest.CaptureFixture[str], rate: str, nbytes: int, mode: int, expected: int, alone: int
) -> None:
    write_run(folder, star(2, rate), 2, messages=[(0, 1)], nbytes=nbytes, changes={"CC_MODE": mode})
    assert finish_times(capsys) == {expected}
    assert (folder / "fct.txt").read_text() == f"0b000001 0b000101 10000 100 {nbytes} 0 {expected} {alone}\n"


def test_an_incast(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(folder, star(8), 8, messages=incast(8), nbytes=2**20)
    assert max(finish_times(capsys)) == 156163
    assert [row[2] for row in flows_in(folder / "fct.txt").values()] == [156091 + 12 * i for i in range(7)]


@pytest.mark.parametrize(
    ("topology", "npus", "collective", "algorithm", "nbytes", "expected"),
    [
        (star(8), 8, "all_reduce", "ring", 65536, 116436),
        (star(8), 8, "all_reduce", "direct", 2**20, 56260),
        (star(8), 8, "all_reduce", "halvingDoubling", 2**20, 88896),
        (star(8, "200Gbps"), 8, "all_reduce", "ring", 2**20, 192736),
        (leaf_spine(4, 4, 2), 16, "all_to_all", "direct", 2**20, 180006),
    ],
)
def test_collectives(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    topology: str,
    npus: int,
    collective: str,
    algorithm: str,
    nbytes: int,
    expected: int,
) -> None:
    write_run(folder, topology, npus, collective=collective, nbytes=nbytes, algorithm=algorithm)
    assert max(finish_times(capsys)) == expected


def test_pauses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = {"HAS_WIN": 0, "BUFFER_SIZE": 1}
    write_run(folder, star(8, "100Gbps"), 8, messages=incast(8), nbytes=2**20, changes=changes)
    assert max(finish_times(capsys)) == 611322
    rows = [tuple(map(int, line.split())) for line in (folder / "pfc.txt").read_text().splitlines()]
    assert len(rows) == 614
    assert rows == sorted(rows, key=lambda row: row[0])
    assert {row[1:4] for row in rows} == {(host, 0, 1) for host in range(1, 8)}  # hosts, at their only port
    for host in range(1, 8):
        kinds = [kind for _, node, _, _, kind in rows if node == host]
        assert kinds == [1, 0] * (len(kinds) // 2)


def test_pfc_frames_without_effect(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As with ns-3's QbbEnabled=0, where 7588 packets are dropped."""
    write_run(folder, star(8), 8, messages=incast(8), nbytes=2**20, changes={"HAS_WIN": 0, "BUFFER_SIZE": 4})
    times = finish_times(capsys, "--set", "network.ethernet.pfc.obeyed=false")
    assert max(times) == 182665
    assert (folder / "pfc.txt").read_text() == ""


def test_queues(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(folder, star(8), 8, messages=incast(8), nbytes=2**20, changes={"QLEN_MON_START": 10_000})
    finish_times(capsys)
    rows = [line.split() for line in (folder / "qlen.txt").read_text().splitlines()]
    times = [int(row[1]) for row in rows]
    assert times == list(range(10_000, times[-1] + 1, 1000))
    assert {(row[0], row[2], row[3], row[4], len(row)) for row in rows} == {("time", "8", "j", "1", 6)}
    # seven windows of 102000 bytes are in flight: 2060 ns of them on the way, the others in the queue
    assert all(500_000 < int(row[5]) < 7 * 103_000 * 1.04 for row in rows[:100])


@pytest.mark.parametrize(("seed", "expected"), [(1, 1064399), (2, 1079542), (4, 1100475)])
def test_random_marks(folder: Path, capsys: pytest.CaptureFixture[str], seed: int, expected: int) -> None:
    write_run(folder, star(8), 8, messages=incast(8), nbytes=2**20, changes={"CC_MODE": 1, "HAS_WIN": 0})
    assert max(finish_times(capsys, "--set", f"output.seed={seed}")) == expected


def test_an_error_rate_of_all_links(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(folder, star(2, "100Gbps"), 2, messages=[(0, 1)], nbytes=2**20, changes={"ERROR_RATE_PER_LINK": 0.01})
    assert finish_times(capsys) == {116384}


def test_error_rates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topology = star(4).replace("4 0 400Gbps 0.0005ms 0", "4 0 400Gbps 0.0005ms 0.01")
    write_run(folder, topology, 4, messages=[(0, 1)], nbytes=2**20)
    assert main(["astra", *WORDS, "--show"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("[[network.ethernet.links]]") == 1
    assert 'link = "link:(4)->(0)"' in shown
    assert max(finish_times(capsys)) > 24043
    write_run(folder, topology, 4, messages=[(0, 1)], nbytes=2**20, changes={"ERROR_RATE_PER_LINK": "1e-3"})
    assert main(["astra", *WORDS, "--show"]) == 0
    assert capsys.readouterr().out.count("[[network.ethernet.links]]") == 4
    write_run(folder, star(4), 4, messages=[(0, 1)], nbytes=2**20, changes={"ERROR_RATE_PER_LINK": "1e-3"})
    assert main(["astra", *WORDS, "--show"]) == 0
    assert 'link = "*"' in capsys.readouterr().out


def test_fewer_npus_than_hosts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(folder, star(16), 8, collective="all_reduce", nbytes=65536)
    assert finish_times(capsys) == {116436}


def test_a_link_that_goes_down(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(folder, leaf_spine(2, 1, 2), 2, messages=[(0, 1)], nbytes=1000, changes={"LINK_DOWN": "1000 2 4"})
    assert main(["astra", *WORDS, "--show"]) == 0
    shown = capsys.readouterr().out
    assert 'link = "link:(2)->(4)"' in shown
    assert 'start = "2.001 s"' in shown


def test_the_folder_of_results(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(folder, star(2), 2, messages=[(0, 1)], nbytes=1000, changes={"FCT_OUTPUT_FILE": "far/away/flows.txt"})
    assert "FCT_OUTPUT_FILE: far/away/flows.txt: " in fault(capsys)
    finish_times(capsys, "--path", "results")
    assert len(flows_in(folder / "results" / "flows.txt")) == 1


def test_shown_settings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(folder, leaf_spine(2, 2, 1, up="400Gbps"), 4, messages=[(0, 3)], nbytes=1000, changes={"GLOBAL_T": 1})
    assert main(["astra", *WORDS, "--show"]) == 0
    shown = capsys.readouterr().out
    assert 'base_rtt = "largest"' in shown
    assert shown.count("[[network.ethernet.ports]]") == 2
    assert 'alpha = "1/2"' in shown  # two halvings from 400 to 100 Gb/s


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"KMAXMAP": "1 100000000000 1600"}, "config.txt:49: KMAXMAP: unknown key; allowed: "),
        ({"CC_MODE": 9}, "config.txt:11: CC_MODE: '9' is not in this version; allowed: 1, 3, 7, 8, 10, 12"),
        ({"L2_ACK_INTERVAL": 0}, "config.txt:24: L2_ACK_INTERVAL: without an acknowledgment of each packet"),
        ({"L2_BACK_TO_ZERO": 1}, "config.txt:25: L2_BACK_TO_ZERO: go-back-0 is not modelled; allowed: 0"),
        ({"KMIN_MAP": "1 100000000000 400"}, "config.txt:43: KMIN_MAP: has no value for 400 Gb/s"),
        ({"KMIN_MAP": "2 100000000000 400"}, "config.txt:43: KMIN_MAP: '[2, 100000000000, 400]' is not a map"),
        ({"LINK_DOWN": "1000 0 1"}, "config.txt:40: LINK_DOWN: there is no link of 0 and 1; allowed: a link of the"),
        ({"ERROR_RATE_PER_LINK": "1.5"}, "config.txt:22: ERROR_RATE_PER_LINK: no packet would arrive"),
        ({"CC_MODE": 1, "RATE_AI": "50Mb"}, "config.txt:18: RATE_AI: 'Mb' in '50Mb' is not a unit of bandwidth"),
        ({"CC_MODE": 1, "RATE_AI": None}, "config.txt: RATE_AI: is missing"),
        ({"TOPOLOGY_FILE": None}, "config.txt: TOPOLOGY_FILE: is missing"),
        ({"TOPOLOGY_FILE": "none.txt"}, "none.txt"),
        ({"BUFFER_SIZE": "big"}, "config.txt:45: BUFFER_SIZE: 'big' is not allowed; allowed: a whole number from 1"),
    ],
)
def test_faults_of_a_configuration(
    folder: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], problem: str
) -> None:
    write_run(folder, star(2), 2, messages=[(0, 1)], nbytes=1000, changes=changes)
    message = fault(capsys)
    assert problem in message
    assert "\n" not in message


def test_keys_that_ns3_never_uses_and_keys_without_effect(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(folder, star(2), 2, messages=[(0, 1)], nbytes=1000, changes={"ACK_HIGH_PRIO": 1, "PAUSE_TIME": 5})
    assert main(["astra", *WORDS]) == 0
    warnings = " ".join(capsys.readouterr().err.split())
    assert "config.txt:39: ACK_HIGH_PRIO: " in warnings
    assert "ENABLE_TRACE: no trace of packets is written" in warnings
    assert "PAUSE_TIME" not in warnings


@pytest.mark.parametrize(
    ("topology", "problem"),
    [
        ("3 1\n2\n", "topology.txt:1: is not a topology of ns-3"),
        ("3 1 2\n2\n0 2 400Gbps 500ns 0\n", "topology.txt: ends before the last of its links"),
        ("3 1 1\n2\n0 3 400Gbps 500ns 0\n", "topology.txt:3: '3' is not a node; allowed: 0 to 2"),
        ("3 1 1\n2\n0 2 400Gb 500ns 0\n", "topology.txt:3: 'Gb' in '400Gb' is not a unit"),
        ("3 1 1\n2\n0 2 400Gbps 500ns 2\n", "topology.txt:3: '2' is not an error rate; allowed: a number from 0 to 1"),
        ("3 2 2\n2 2\n0 2 400Gbps 500ns 0\n1 2 400Gbps 500ns 0\n", "topology.txt: names 1 switches instead of 2"),
    ],
)
def test_faults_of_a_topology(folder: Path, capsys: pytest.CaptureFixture[str], topology: str, problem: str) -> None:
    write_run(folder, star(2), 2, messages=[(0, 1)], nbytes=1000)
    (folder / "topology.txt").write_text(topology)
    assert problem in fault(capsys)


def test_lines_that_ns3_does_not_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(folder, star(2), 2, messages=[(0, 1)], nbytes=1000)
    with (folder / "topology.txt").open("a") as stream:
        stream.write("7\n")
    assert main(["astra", *WORDS]) == 0
    words = " ".join(capsys.readouterr().err.split())
    assert "'7' follows the last of 2 links, and is not read" in words


def test_faults_of_logical_dimensions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(folder, star(4), 4, messages=[(0, 1)], nbytes=1000)
    (folder / "logical.json").write_text('{"logical-dims": ["5"]}')
    assert "logical.json:1: logical-dims: 5 NPUs, but the topology has 4 hosts; allowed: at most" in fault(capsys)
    (folder / "config.txt").write_text("num-npus: 4\n" + config_text())
    assert "--logical-topology-configuration" in fault(capsys)
    (folder / "config.txt").unlink()
    assert "config.txt: no such file" in fault(capsys)


SIMAI = """14 4 2 4 20 H100
8 9 10 11 12 13
0 8 2880Gbps 0.000025ms 0
1 8 2880Gbps 0.000025ms 0
2 8 2880Gbps 0.000025ms 0
3 8 2880Gbps 0.000025ms 0
4 9 2880Gbps 0.000025ms 0
5 9 2880Gbps 0.000025ms 0
6 9 2880Gbps 0.000025ms 0
7 9 2880Gbps 0.000025ms 0
0 10 400Gbps 0.0005ms 0
4 10 400Gbps 0.0005ms 0
1 11 400Gbps 0.0005ms 0
5 11 400Gbps 0.0005ms 0
2 12 400Gbps 0.0005ms 0
6 12 400Gbps 0.0005ms 0
3 13 400Gbps 0.0005ms 0
7 13 400Gbps 0.0005ms 0
10 11 400Gbps 0.0005ms 0
11 12 400Gbps 0.0005ms 0
12 13 400Gbps 0.0005ms 0
13 10 400Gbps 0.0005ms 0
"""


def test_a_flow_file_on_a_topology_of_simai(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    maps = {"KMIN_MAP": "2 400000000000 800 2880000000000 800", "KMAX_MAP": "2 400000000000 3200 2880000000000 3200"}
    maps["PMAX_MAP"] = "2 400000000000 0.2 2880000000000 0.2"
    (folder / "config.txt").write_text(config_text(maps))
    (folder / "topology.txt").write_text(SIMAI)
    (folder / "flow.txt").write_text("3\n0 3 3 100 1000 2.0\n0 5 3 100 1000 2.0001\n0 6 3 100 1000 2.0002\n")
    assert main(["astra", "--network-configuration=config.txt"]) == 0
    flows = flows_in(folder / "fct.txt")
    # 1036 B at 2880 Gb/s take 3 ns, an acknowledgment 0; through the NVSwitch, and over rails 10 and 11
    assert flows[0, 3, 10000][:3] == (1000, 2_000_000_000, 2 * (3 + 25) + 2 * 25)
    assert flows[0, 5, 10000][:3] == (1000, 2_000_100_000, 3 * (21 + 500) + 3 * (1 + 500))
    # over three rails, not through GPU 2, whose NVSwitch is nearer
    assert flows[0, 6, 10000][:3] == (1000, 2_000_200_000, 4 * (21 + 500) + 4 * (1 + 500))


def test_a_flow_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "config.txt").write_text(config_text())
    (folder / "topology.txt").write_text(star(8))
    flows = "".join(f"{host} 0 3 100 1048576 2.000000\n" for host in range(1, 8))
    (folder / "flow.txt").write_text(f"7\n{flows}")
    assert main(["astra", "--network-configuration=config.txt"]) == 0
    expected = {(host, 0, 10000): (2**20, 2 * 10**9, 156079 + 12 * host, 24018) for host in range(1, 8)}
    assert flows_in(folder / "fct.txt") == expected


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("0 1 3 100 1000 2\n", "flow.txt:1: is not a flow file; allowed: the number of flows in the first line"),
        ("1\n0 1 3 100 1000\n", "flow.txt:2: has 5 values; allowed: source, destination, priority group"),
        ("1\n0 8 3 100 1000 2\n", "flow.txt:2: '8' is not a host of the topology"),
        ("1\n0 0 3 100 1000 2\n", "flow.txt:2: node 0 sends to itself"),
        ("1\n0 1 3 100 0 2\n", "flow.txt:2: has no bytes: such a flow of ns-3 never ends"),
        ("1\n0 1 3 100 1000 2s\n", "flow.txt:2: '2s' is not a time in seconds; allowed: a number such as 2.0001"),
        ("2\n0 1 3 100 1000 2\n", "flow.txt:1: has 1 flows, but its first line says 2"),
        ("2\n0 1 3 100 1000 2\n0 1 2 100 1000 2\n", "flow.txt: has flows of the priority groups 3, 2"),
    ],
)
def test_faults_of_a_flow_file(folder: Path, capsys: pytest.CaptureFixture[str], lines: str, problem: str) -> None:
    (folder / "config.txt").write_text(config_text())
    (folder / "topology.txt").write_text(star(8))
    (folder / "flow.txt").write_text(lines)
    assert main(["astra", "--network-configuration=config.txt"]) == 2
    assert problem in capsys.readouterr().err


def test_lines_behind_the_last_flow(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ns-3 does not read them, whatever they are."""
    (folder / "config.txt").write_text(config_text())
    (folder / "topology.txt").write_text(star(8))
    (folder / "flow.txt").write_text("1\n0 1 3 100 1000 2\n\n0 9 3\n")
    assert main(["astra", "--network-configuration=config.txt"]) == 0
    assert "flow.txt:4: follows the last of 1 flows, and is not read" in capsys.readouterr().err
    assert len(flows_in(folder / "fct.txt")) == 1


def test_missing_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "config.txt").write_text(config_text({"FLOW_FILE": None}))
    (folder / "topology.txt").write_text(star(8))
    assert main(["astra", "--network-configuration=config.txt"]) == 2
    assert "--system-configuration: is missing" in capsys.readouterr().err
    assert main(["astra", "--network-configuration=config.txt", "--system-configuration=system.json"]) == 2
    assert "--workload-configuration: is missing" in capsys.readouterr().err
