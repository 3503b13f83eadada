"""The transports of the Ethernet backend: one file each."""

from pyxsim.plugins import Target, transports

for _name, _place in (
    ("none", "transport:Transport"),
    ("cubic", "transports.cubic:Cubic"),
    ("dcqcn", "transports.dcqcn:Dcqcn"),
    ("dctcp", "transports.dctcp:Dctcp"),
    ("hpcc", "transports.hpcc:Hpcc"),
    ("hpcc-pint", "transports.hpcc_pint:HpccPint"),
    ("ndp", "transports.ndp:Ndp"),
    ("newreno", "transports.newreno:NewReno"),
    ("swift", "transports.swift:Swift"),
    ("timely", "transports.timely:Timely"),
    ("nscc", "uec.uec_transports:Nscc"),
    ("rccc", "uec.uec_transports:Rccc"),
    ("nscc-rccc", "uec.uec_transports:NsccRccc"),
):
    transports.register(_name)(Target(f"pyxsim.network.ethernet.{_place}"))
