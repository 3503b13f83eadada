"""The transports of the Ethernet backend: one file each."""

from pyxsim.plugins import Target, transports

for _name, _place in (
    ("none", "transport:Transport"),
    ("dcqcn", "transports.dcqcn:Dcqcn"),
    ("dctcp", "transports.dctcp:Dctcp"),
    ("hpcc", "transports.hpcc:Hpcc"),
    ("swift", "transports.swift:Swift"),
    ("timely", "transports.timely:Timely"),
):
    transports.register(_name)(Target(f"pyxsim.network.ethernet.{_place}"))
