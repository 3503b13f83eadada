"""Print the table of docs/faults.md: `python -m validation.overload`.

NPUs send a permutation on fat trees with failed cables as fast as they can. A row has the rates of all pairs together,
in % of the maximum total flow, and that of the slowest pair, in % of the maximum concurrent flow, over all draws.
"""

from __future__ import annotations

from validation.failed_links import LARGE, SELECTIONS, SMALL, Tree, built, permutation, tree_network

TABLE = ((SMALL, 0, 1), (SMALL, 1, 8), (SMALL, 8, 8), (LARGE, 64, 1))  # tree, cables down, draws


def _span(shares: list[float]) -> str:
    return f"{min(shares):.1f} to {max(shares):.1f}" if len(shares) > 1 else f"{shares[0]:.1f}"


def row(tree: Tree, count: int, draws: int, selection: str) -> str:
    """Return a row of the table."""
    found = [permutation(tree, count, seed, 1 << 19, selection, full=True) for seed in range(1, draws + 1)]
    totals = [100 * float(rates.pairs.mean()) / rates.total for rates in found]
    slowest = [100 * float(rates.pairs.min()) / rates.equal for rates in found]
    cables = f"{count} of {built(tree_network(tree)).links // 2}"
    return f"| {cables} | {selection if count else 'no fault'} | {_span(totals)} | {_span(slowest)} |"


if __name__ == "__main__":
    print("| cables down | `select`, `weights` | total, % | slowest pair, % |\n|---|---|---|---|")
    for tree, count, draws in TABLE:
        for selection in SELECTIONS if count else ("least",):
            print(row(tree, count, draws, selection), flush=True)
