"""The cache of deadlock proofs, by relation, pairs and source code of the prover (`pyxsim/cache.py`)."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from pyxsim.arrays import IntArray
from pyxsim.cache import Proofs
from pyxsim.routing.product_table import ProductTable
from pyxsim.routing.relation import Relation

_CODE = ("bubble", "by_dimension", "deadlock", "explore", "grid", "journeys", "planes", "product_table", "relation")
_PROOFS = Proofs(
    "proofs", "proved: these routes cannot deadlock\n", [Path(__file__).with_name(f"{name}.py") for name in _CODE]
)

known, remember, forget = _PROOFS.known, _PROOFS.remember, _PROOFS.forget


def key(relation: Relation, pairs: IntArray | None, whole: bool) -> str:
    """Return the cache key of a proof."""
    unused = ("link_name", "ranks")  # they do not affect the proof
    columns = {field.name: getattr(relation, field.name) for field in fields(relation) if field.name not in unused}
    for name in ("link", "vc_class"):
        if isinstance(table := columns[name], ProductTable):
            del columns[name]
            columns |= {f"{name} {part}": value for part, value in table.columns().items()}
    return _PROOFS.key(**columns, pairs=pairs, whole=whole)
