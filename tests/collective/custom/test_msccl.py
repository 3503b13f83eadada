"""MSCCL XML: every type of step, in place and not, threadblocks that wait for each other, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from pyxsim.collective.checker import prove
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom import msccl
from pyxsim.collective.lookup import get_algorithm, get_schedule
from pyxsim.collective.schedule import ScheduleError
from pyxsim.errors import InputError

Tb = tuple[int, int, list[str]]


def step(what: str, src: str = "i0", dst: str = "o0", cnt: int = 1, after: tuple[int, int] = (-1, -1)) -> str:
    """A <step> without its number; "o3" is offset 3 in buffer o. Told of is what ends with "!"."""
    told = int(what.endswith("!"))
    return (
        f'type="{what.rstrip("!")}" srcbuf="{src[0]}" srcoff="{src[1:]}" dstbuf="{dst[0]}" dstoff="{dst[1:]}"'
        f' cnt="{cnt}" depid="{after[0]}" deps="{after[1]}" hasdep="{told}"'
    )


def algo(
    coll: str, n: int, chunks: int, threadblocks: Callable[[int], Iterable[Tb]], *, inplace: int = 0, more: str = ""
) -> str:
    lines = [f'<algo name="x" nchunksperloop="{chunks}" ngpus="{n}" coll="{coll}" inplace="{inplace}" {more}>']
    for rank in range(n):
        lines.append(f'<gpu id="{rank}" i_chunks="{chunks}" o_chunks="{chunks}" s_chunks="{chunks}">')
        for number, (send, recv, steps) in enumerate(threadblocks(rank)):
            lines.append(f'<tb id="{number}" send="{send}" recv="{recv}" chan="0">')
            lines += [f'<step s="{place}" {each}/>' for place, each in enumerate(steps)]
            lines.append("</tb>")
        lines.append("</gpu>")
    return "\n".join([*lines, "</algo>"])


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str, str, int], CompiledSchedule]:
    def reader(text: str, kind: str, n: int) -> CompiledSchedule:
        path = tmp_path / "x.xml"
        path.write_text(text)
        return get_schedule(kind, str(path), n)

    return reader


Reader = Callable[[str, str, int], CompiledSchedule]


def ring_out_of_place(n: int) -> str:
    """All types that receive: the sum goes round by rrs, is complete by rrcs, comes home by rcs, and r at the end."""

    def threadblocks(rank: int) -> Iterable[Tb]:
        steps = []
        for k in range(n):
            chunk = (rank - 1 - k) % n
            what = "s" if k == 0 else "rrs" if k < n - 1 else "rrcs"
            steps.append(step(what, f"i{chunk}", f"o{chunk}"))
        for k in range(n - 1):
            chunk = (rank - 1 - k) % n
            steps.append(step("rcs" if k < n - 2 else "r", f"i{chunk}", f"o{chunk}"))
        return [((rank + 1) % n, (rank - 1) % n, steps)]

    return algo("allreduce", n, n, threadblocks, more='proto="LL128" nchannels="1" redop="sum" minBytes="0"')


def all_pairs(n: int, *, waits: bool = True, hasdep: str = "!") -> str:
    """In place, with scratch, additions in one threadblock that waits for all others, and these for it."""

    def threadblocks(rank: int) -> Iterable[Tb]:
        peers = [peer for peer in range(n) if peer != rank]
        for peer in peers:
            yield (
                peer,
                peer,
                [
                    step("s", f"i{peer}", f"s{rank}"),
                    step("r" + hasdep, f"i{rank}", f"s{peer}"),
                    step("s", f"i{rank}", f"i{rank}", after=(n - 1, n - 2) if waits else (-1, -1)),
                    step("r", f"i{peer}", f"i{peer}"),
                ],
            )
        last = len(peers) - 1
        yield (
            -1,
            -1,
            [
                step("re!" if number == last else "re", f"s{peer}", f"i{rank}", after=(number, 1))
                for number, peer in enumerate(peers)
            ],
        )

    return algo("allreduce", n, n, threadblocks, inplace=1)


@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_a_ring_with_every_type_that_receives(read: Reader, n: int) -> None:
    s = read(ring_out_of_place(n), "all-reduce", n)
    prove(s)
    sent = ~s.local
    assert np.array_equal(s.dst[sent], (s.src[sent] + 1) % n)
    assert np.bincount(s.src[sent]).tolist() == [2 * (n - 1)] * n
    assert str(s) == f"x.xml all-reduce on {n} ranks"


@pytest.mark.parametrize("n", [2, 3, 5])
def test_threadblocks_that_wait_for_each_other(read: Reader, n: int) -> None:
    s = read(all_pairs(n), "all-reduce", n)
    prove(s)
    assert (~s.local).sum() == 2 * n * (n - 1)


def test_a_step_of_several_chunks(read: Reader) -> None:
    def threadblocks(rank: int) -> Iterable[Tb]:
        return [(1 - rank, 1 - rank, [step("s", "i0", "s0", 3), step("r", "i0", "s0", 3), step("re", "s0", "i0", 3)])]

    s = read(algo("allreduce", 2, 3, threadblocks, inplace=1), "all-reduce", 2)
    prove(s)
    assert s.blocks_of(int(np.flatnonzero(~s.local)[0])).size == 3


def two(coll: str, inplace: int, steps: Callable[[int], list[str]], chunks: int = 2) -> str:
    return algo(coll, 2, chunks, lambda rank: [(1 - rank, 1 - rank, steps(rank))], inplace=inplace)


# Every collective on two GPUs: what is where in its buffers, in place and not.
SMALL = [
    (
        "allgather",
        "all-gather",
        0,
        lambda r: [step("cpy", "i0", f"o{r}"), step("s", "i0"), step("r", "i0", f"o{1 - r}")],
    ),
    ("allgather", "all-gather", 1, lambda r: [step("s", "i0"), step("r", "i0", f"o{1 - r}")]),
    ("allgather", "all-gather", 1, lambda r: [step("s", f"o{r}"), step("r", "i0", f"o{1 - r}")]),
    ("reduce_scatter", "reduce-scatter", 0, lambda r: [step("s", f"i{1 - r}"), step("rrc", f"i{r}", "o0")]),
    ("reduce_scatter", "reduce-scatter", 1, lambda r: [step("s", f"i{1 - r}"), step("rrc", f"i{r}", "o0")]),
    ("reducescatter", "reduce-scatter", 1, lambda r: [step("s", f"i{1 - r}"), step("rrc", f"i{r}", f"i{r}")]),
    (
        "alltoall",
        "all-to-all",
        0,
        lambda r: [step("cpy", f"i{r}", f"o{r}"), step("s", f"i{1 - r}"), step("r", "i0", f"o{1 - r}")],
    ),
    ("alltoall", "all-to-all", 1, lambda r: [step("s", f"i{1 - r}"), step("r", "i0", f"o{1 - r}")]),
    ("broadcast", "broadcast", 1, lambda r: [step("r", "i0", "o0", 2)] if r else [step("s", "i0", "o0", 2)]),
    (
        "broadcast",
        "broadcast",
        0,
        lambda r: [step("r", "i0", "o0", 2)] if r else [step("s", "i0", "o0", 2), step("cpy", "i0", "o0", 2)],
    ),
    ("reduce", "reduce", 1, lambda r: [step("s", "i0", "i0", 2)] if r else [step("rrc", "i0", "i0", 2)]),
    ("reduce", "reduce", 0, lambda r: [step("s", "i0", "i0", 2)] if r else [step("rrc", "i0", "o0", 2)]),
    ("gather", "gather", 1, lambda r: [step("s", "i0")] if r else [step("r", "i0", "o1")]),
    ("gather", "gather", 0, lambda r: [step("s", "i0")] if r else [step("r", "i0", "o1"), step("cpy", "i0", "o0")]),
    ("scatter", "scatter", 1, lambda r: [step("r", "i0", "o0")] if r else [step("s", "i1", "o0")]),
    ("scatter", "scatter", 0, lambda r: [step("r", "i0", "o0")] if r else [step("s", "i1", "o0"), step("cpy")]),
]


@pytest.mark.parametrize(("coll", "kind", "inplace", "steps"), SMALL)
def test_every_collective(read: Reader, coll: str, kind: str, inplace: int, steps: Callable[[int], list[str]]) -> None:
    prove(read(two(coll, inplace, steps), kind, 2))


@pytest.mark.parametrize(("coll", "kind", "inplace", "steps"), SMALL)
def test_every_collective_fails_without_its_last_step(
    read: Reader, coll: str, kind: str, inplace: int, steps: Callable[[int], list[str]]
) -> None:
    with pytest.raises(ScheduleError, match=r"ends without|never receives|waits for message 0"):
        prove(read(two(coll, inplace, lambda rank: steps(rank)[:-1]), kind, 2))


def test_copies_share_their_data_and_may_both_be_sent(read: Reader) -> None:
    def steps(rank: int) -> list[str]:
        # Chunk 0 of the input is known by four names, two of which are sent together and come back together.
        copies = [step("cpy", "i0", "s0"), step("cpy", "i0", "s1"), step("cpy", "i0", "o0")]
        exchange = [step("s", "s0", "s0", 2), step("r", "i0", "s0", 2), step("re", "s1", "o0")]
        return [*copies, *exchange, step("s", "i1"), step("rrc", "i1", "o1")]

    prove(read(two("allreduce", 0, steps), "all-reduce", 2))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            ('coll="allreduce"', 'coll="custom"'),
            r"x.xml:1: algo: coll is 'custom', which does not define the res",
        ),
        (('coll="allreduce"', 'coll="alreduce"'), r"coll is 'alreduce'; allowed: .*; did you mean 'allreduce'\?"),
        (('coll="allreduce"', ""), r"x.xml:1: algo: coll is missing"),
        (('nchunksperloop="2"', 'nchunksperloop="0"'), r"nchunksperloop is '0'; allowed: a whole number from 1"),
        (('ngpus="2"', 'ngpus="3"'), r"x.xml:1: algo: 2 elements <gpu>; allowed: 3 \(ngpus is 3\)"),
        (('ngpus="2"', 'ngpus="two"'), r"ngpus is 'two'; allowed: a whole number from 2"),
        (('inplace="1"', 'inplace="1" proto="L"'), r"proto is 'L'; allowed: Simple, LL, LL128"),
        (('inplace="1"', 'inplce="1"'), r"algo: inplce is unknown; .*; did you mean 'inplace'\?"),
        (("<algo ", "<prog "), r"x.xml:1: prog: is not an MSCCL algorithm; allowed: <algo>|mismatched tag"),
        (("</algo>", ""), r"x.xml:\d+: not valid XML: no element found"),
        (('<gpu id="1"', '<gpu id="0"'), r"gpu: id 0 occurs twice, first in .*x.xml:2"),
        (('<tb id="1"', '<tb id="2"'), r"x.xml:2: gpu: <tb> id=1 is missing; allowed: 0 to 1"),
        (('recv="1"', 'recv="0"'), r"x.xml:3: tb: recv is 0; allowed: another GPU of 0 to 1, or -1"),
        (('chan="0"', 'chan="32"'), r"tb: chan is 32; allowed: 0 to 31"),
        (('send="-1" recv="-1"', 'send="1" recv="-1"'), r"x.xml:9: tb: threadblock 0 also has send 1 on channel 0"),
        (('type="re"', 'type="rre"'), r"x.xml:10: step: type is 'rre'; allowed: s, r, rcs"),
        (('type="re"', 'type="r"'), r"x.xml:10: step: type is 'r', but its threadblock has no recv"),
        (('type="re"', 'type="s"'), r"x.xml:10: step: type is 's', but its threadblock has no send"),
        (('srcbuf="s"', 'srcbuf="z"'), r"step: 'z' is not a buffer; allowed: i, o, s"),
        (('srcoff="1"', 'srcoff="2"'), r"x.xml:4: step: chunks 2 to 2 of buffer i are used, but i_chunks is 2"),
        (('cnt="1"', 'cnt="0"'), r"step: cnt is '0'; allowed: a whole number from 1"),
        (('deps="0"', 'deps="9"'), r"x.xml:6: step: waits for step 9 of threadblock 1, which does not exist"),
        (('depid="1"', 'depid="7"'), r"step: waits for step 0 of threadblock 7, which does not exist"),
        (('hasdep="1"', 'hasdep="0"'), r"waits for step \d of threadblock \d, which has no hasdep=\"1\""),
        (('<step s="3"', '<step s="4"'), r"tb: <step> s=3 is missing"),
        (("<step ", "<stop "), r"x.xml:4: stop: no such element in <tb>; allowed: step; did you mean 'step'\?"),
        (('depid="1"', 'depid="0" x="1"'), r"step: x is unknown"),
    ],
)
def test_wrong_files(read: Reader, change: tuple[str, str], problem: str) -> None:
    text = all_pairs(2).replace(*change, -1 if change[0] in ("<step ", 'hasdep="1"') else 1)
    with pytest.raises(InputError, match=problem):
        read(text, "all-reduce", 2)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (('nchunksperloop="2"', 'nchunksperloop="999999999"'), "on 2 GPUs; allowed: at most 262144"),
        (('i_chunks="2"', 'i_chunks="999999999"'), "i_chunks is 999999999; allowed: 0 to 262144"),
    ],
)
def test_a_small_file_cannot_have_many_chunks(read: Reader, change: tuple[str, str], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read(all_pairs(2).replace(*change), "all-reduce", 2)


def test_a_small_file_cannot_move_many_chunks(read: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msccl, "MOST_NAMED", 30)
    steps = [step("cpy", "i0", "o0", 8)] * 2
    with pytest.raises(InputError, match="more chunks than the steps may; allowed: 30 in all"):
        read(two("allreduce", 0, lambda rank: steps, chunks=8), "all-reduce", 2)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            all_pairs(3, waits=False),
            r"(reads|writes) i\[\d\], which step \d of threadblock \d of rank \d (writes|uses), and n",
        ),
        (
            two("allreduce", 1, lambda r: [step("s", "s0")]),
            r"step 0 of threadblock 0 of rank 0 reads s\[0\], which is empty",
        ),
        (two("allreduce", 1, lambda r: [step("s"), step("rrc", "i1", "i1")]), r"adds block 1 to block 0"),
        (
            two("allreduce", 1, lambda r: [step("s", "i0", "i0", 2), step("r"), step("r")]),
            r"receives 1 blocks of rank \d, but 2 arrive",
        ),
        (
            algo(
                "allreduce",
                2,
                1,
                lambda r: [(1 - r, 1 - r, [step("nop!", after=(1, 0))]), (-1, -1, [step("nop!", after=(0, 0))])],
            ),
            r"step 0 of threadblock 0 of rank 0 waits for a step of threadblock 1 of rank 0, which waits in step 0 for "
            r"a step of threadblock 0 of rank 0: 2 wait for each other in a cycle",
        ),
    ],
)
def test_programs_that_cannot_be(read: Reader, text: str, problem: str) -> None:
    n = text.count("<gpu")
    with pytest.raises(ScheduleError, match=problem) as caught:
        read(text, "all-reduce", n)
    assert "x.xml:" in str(caught.value)


def test_an_order_that_goes_over_another_gpu_is_an_order(read: Reader) -> None:
    """Chunk 0 is sent by one threadblock and comes back to another, which stores it there: it has left before."""

    def threadblocks(rank: int) -> Iterable[Tb]:
        if rank == 0:
            yield 1, -1, [step("s", "i0")]
            yield -1, 1, [step("r", "i0", "i0")]
        else:
            yield 0, 0, [step("rrcs", "i0", "i0")]

    prove(read(algo("allreduce", 2, 1, threadblocks, inplace=1), "all-reduce", 2))


def test_a_file_says_what_it_can_do(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    path.write_text(all_pairs(4))
    assert get_algorithm(str(path)).kinds == ("all-reduce",)
    with pytest.raises(InputError, match=r"x.xml does not support all-gather; allowed: all-reduce with"):
        get_schedule("all-gather", str(path), 4)
    with pytest.raises(InputError, match=r"x.xml: is for 4 GPUs, but the group has 8; allowed: a group of 4; 'one-'"):
        get_schedule("all-reduce", str(path), 8)
    with pytest.raises(InputError, match=r"':part' has no meaning"):
        get_algorithm(f"{path}:part")
    with pytest.raises(InputError, match=r"takes no number"):
        get_algorithm(f"{path}:4")


@pytest.mark.parametrize("inplace", [0, 1])
def test_a_copy_before_all_steps(read: Reader, inplace: int) -> None:
    """Without the copy, the output lacks the chunk of its own GPU; in place it is there."""

    def threadblocks(rank: int) -> Iterable[Tb]:
        steps = [step("s", f"o{rank}", f"o{rank}"), step("r", f"o{1 - rank}", f"o{1 - rank}")]
        yield 1 - rank, 1 - rank, steps

    text = algo("allgather", 2, 2, threadblocks, inplace=inplace)
    lines = text.split("\n")
    for rank in range(2):
        place = next(k for k, line in enumerate(lines) if line.startswith(f'<gpu id="{rank}"'))
        lines.insert(place + 1, f'<copy i_off="0" o_off="{rank}"/>')
    prove(read("\n".join(lines), "all-gather", 2))
    if not inplace:
        with pytest.raises(ScheduleError, match="which is empty"):
            read(text, "all-gather", 2)


@pytest.mark.parametrize(
    ("copy", "message"),
    [
        ('<copy i_off="1" o_off="0"/>', "x.xml:3: copy: i_off is 1"),
        ('<copy i_off="0" o_off="2"/>', "x.xml:3: copy: o_off is 2, but o_chunks is 2"),
        ('<copy i_off="0"/>', "o_off is missing"),
        ('<copy i_off="0" o_off="0" x="1"/>', "x is unknown"),
    ],
)
def test_a_copy_that_is_refused(read: Reader, copy: str, message: str) -> None:
    text = algo("allgather", 2, 2, lambda rank: []).replace("\n</gpu>", f"\n{copy}\n</gpu>")
    with pytest.raises(InputError, match=message):
        read(text, "all-gather", 2)
