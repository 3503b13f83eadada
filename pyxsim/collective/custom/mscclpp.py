"""Execution plans."""
