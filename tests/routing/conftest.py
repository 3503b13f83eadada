"""Proofs are made anew in every test: none is known from before, and none is left behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyxsim.routing import proofs


@pytest.fixture(autouse=True)
def _no_proofs_from_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYXSIM_CACHE", "")
    proofs.forget()
    yield
    proofs.forget()
