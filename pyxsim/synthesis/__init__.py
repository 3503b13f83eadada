"""Synthesis of collectives: schedules for a given network, near the bound of its links."""
