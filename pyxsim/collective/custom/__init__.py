"""Collectives of one's own, from files: Python, MSCCL XML, Chakra traces. docs/custom_collectives.md tells how."""
