"""Remote memory cycle by cycle, as docs/memory.md tells it: slow, and easy to read. Bytes are exact fractions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any

LOAD, STORE, GATHER, REDUCE = range(4)


@dataclass
class Asked:
    """An access. `to_do`: for each stretch its links and the bytes that are left."""

    at: int
    npu: int
    size: int
    what: int
    to_do: list[tuple[list[str], Fraction]] = field(default_factory=list)
    end: int = -1


class SlowMemory:
    """`table`: the settings, as plain values; bandwidths in bytes per cycle, `latency` in cycles. `bytes` and `busy`:
    what each memory or link carried, and in how many cycles it was carrying something."""

    def __init__(self, table: dict[str, Any], npus: int, accesses: list[tuple[int, int, int, int]]) -> None:
        self.table, self.npus = table, npus
        self.asked = [Asked(*access) for access in accesses]
        self.bytes: dict[str, int] = defaultdict(int)
        self.busy: dict[str, int] = defaultdict(int)
        if table["kind"] == "per-npu":
            for each in self.asked:
                each.end = each.at + table["latency"] + ceil(each.size / table["bandwidth"])
        elif table.get("sharing", "fifo") == "fifo" and table["kind"] in ("per-node", "pool"):
            self.one_by_one()
        else:
            self.all_at_once()

    def node(self, npu: int) -> int:
        return npu // self.table["npus_per_node"]

    def one_by_one(self) -> None:
        free: dict[str, int] = defaultdict(int)
        for each in self.asked:  # as they come
            place = "pool" if self.table["kind"] == "pool" else f"memory of node {self.node(each.npu)}"
            time = self.table["latency"] + ceil(each.size / self.table["bandwidth"])
            each.end = free[place] = max(free[place], each.at) + time
            self.bytes[place] += each.size
            self.busy[place] += time

    # -- shared bandwidth --

    def links(self, npu: int, way: str) -> list[list[str]]:
        """The stages on the way of one NPU, from the memory on."""
        kind = self.table["kind"]
        if kind == "pool":
            return [["pool"]]
        if kind == "per-node":
            return [[f"memory of node {self.node(npu)}"]]
        if kind == "zero-infinity":
            limit = [f"memories of node {self.node(npu)}"] if "node_bandwidth" in self.table else []
            return [[f"memory of NPU {npu}", *limit]]
        own = [f"memory side, {way}", f"node {self.node(npu)}, {way}", f"NPU {npu}, {way}"]
        return [["memory groups"], *([link] for link in own)]

    def capacity(self, link: str) -> Fraction:
        table = self.table
        if link.startswith("memories of node"):
            return Fraction(table["node_bandwidth"])
        if table["kind"] != "hierarchical":
            return Fraction(table["bandwidth"])
        if link == "memory groups":
            return Fraction(table["groups"] * table["bandwidth"])
        if link.startswith("memory side"):
            return Fraction(table["groups"] * table["switches"] * table["memory_link"])
        return Fraction(table["switches"] * table["node_link"] if link.startswith("node") else table["npu_link"])

    def plan(self, each: Asked) -> None:
        way = "loads" if each.what in (LOAD, GATHER) else "stores"
        stages = self.links(each.npu, way)
        if each.what in (GATHER, REDUCE):
            of_all = [self.links(npu, way) for npu in range(self.npus)]
            stages = [sorted({link for own in of_all for link in own[stage]}) for stage in range(len(stages))]
        chunk = min(self.table["chunk"], each.size) if self.table["kind"] == "hierarchical" else 0
        ordered = stages if way == "loads" else stages[::-1]
        each.to_do = [(links, Fraction(chunk)) for links in ordered if chunk]
        if each.size > chunk:
            each.to_do.append(([link for links in stages for link in links], Fraction(each.size - chunk)))
        for links, size in each.to_do:
            for link in links:
                self.bytes[link] += int(size)

    def all_at_once(self) -> None:
        cycle = 0
        going: list[Asked] = []
        while any(each.end < 0 for each in self.asked):
            for each in list(going):
                if each.to_do[0][1] <= 0:
                    each.to_do.pop(0)
                if not each.to_do:
                    each.end = cycle
                    going.remove(each)
            for each in self.asked:
                if each.at + self.table["latency"] == cycle:
                    self.plan(each)
                    going.append(each)
            for link in {link for each in going for link in each.to_do[0][0]}:
                self.busy[link] += 1
            rates = self.rates([each.to_do[0][0] for each in going])
            for each, rate in zip(going, rates, strict=True):
                links, left = each.to_do[0]
                each.to_do[0] = (links, left - rate)
            cycle += 1

    def rates(self, flows: list[list[str]]) -> list[Fraction]:
        """All rise together, until a link of theirs is full."""
        rates = [Fraction(0)] * len(flows)
        rising = set(range(len(flows)))
        while rising:
            room = {}
            for link in {link for flow in rising for link in flows[flow]}:
                used = sum((rates[flow] for flow in range(len(flows)) if link in flows[flow]), Fraction(0))
                room[link] = (self.capacity(link) - used) / sum(link in flows[flow] for flow in rising)
            step = min(room.values())
            for flow in rising:
                rates[flow] += step
            rising = {flow for flow in rising if all(room[link] > step for link in flows[flow])}
        return rates
