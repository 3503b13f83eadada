"""Show that a change of the code changes no result: run fixed experiments and compare all data to the bit.

    python -m validation.unchanged results/before --pyxsim /path/to/old/tree/.venv/bin/pyxsim
    python -m validation.unchanged results/after --against results/before

The experiments cover every backend, attribution, open traffic, workloads, remote memory, carried data, comparisons,
curves and the files of ASTRA-sim and BookSim2. Inputs come from this checkout, so that both runs read the same files.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SET = "--set"
TORUS = "inputs/torus_all_reduce.toml"
UNIFORM = "inputs/torus_uniform.toml"
ASTRA = "inputs/astra"

RUNS: dict[str, list[str]] = {
    "torus": ["run", TORUS],
    "torus-messages": ["run", TORUS, SET, "output.attribution=messages", SET, "collective.size=128 KiB"],
    "torus-analytical": ["run", TORUS, "--backend", "analytical"],
    "torus-congestion": ["run", TORUS, "--backend", "analytical-congestion"],
    "torus-flow": ["run", TORUS, "--backend", "flow"],
    "torus-periods": ["run", TORUS, SET, "collective.size=16 MiB"],
    "garnet": ["run", "inputs/garnet_sample.toml"],
    "uniform": ["run", UNIFORM],
    "uniform-messages": ["run", UNIFORM, SET, "output.attribution=messages", SET, "traffic.measure=2000"],
    "uniform-saturated": ["run", UNIFORM, SET, "network.router.routing=xy-yx", SET, "traffic.load=0.5"],
    "bruck": ["run", "inputs/bruck.toml"],
    "double-binary-tree": ["run", "inputs/double_binary_tree.toml"],
    "endpoint": ["run", "inputs/endpoint.toml"],
    "groups": ["run", "inputs/groups.toml"],
    "hierarchy-links": ["run", "inputs/hierarchy.toml", SET, "output.attribution=links"],
    "in-switch": ["run", "inputs/in_switch.toml"],
    "straggler": ["run", "inputs/straggler.toml"],
    "system-file": ["run", "inputs/system_file.toml"],
    "themis": ["run", "inputs/themis.toml"],
    "remote-memory": ["run", "inputs/memory/hierarchical.toml"],
    "zero-infinity": ["run", "inputs/memory/zero_infinity.toml", "--backend", "analytical"],
    "resnet": ["run", "inputs/training/resnet50_data.toml"],
    "mixtral": ["run", "inputs/training/mixtral.toml", "--backend", "analytical-congestion"],
    "dlrm": ["run", "inputs/training/dlrm.toml", "--backend", "flow"],
    "msccl": ["run", "inputs/collectives/direct.toml"],
    "python-collective": ["run", "inputs/collectives/exchange.toml", SET, "output.carry=true"],
    "nvls": ["run", "inputs/systems/dgx_h100_nvls.toml"],
    "tpu-twisted": ["run", "inputs/systems/tpu_v4_twisted.toml"],
    "astra-1": [
        "astra",
        f"--network-configuration={ASTRA}/switch_network.txt",
        f"--system-configuration={ASTRA}/switch_system.txt",
        f"--workload-configuration={ASTRA}/micro_all_reduce.txt",
    ],
    "astra-2": [
        "astra",
        f"--network-configuration={ASTRA}/ring_network.yml",
        f"--system-configuration={ASTRA}/ring_system.json",
        f"--remote-memory-configuration={ASTRA}/remote_memory.json",
        f"--workload-configuration={ASTRA}/all_reduce_8npus/all_reduce",
    ],
    "booksim": ["booksim", "inputs/booksim/torus.cfg", "injection_rate=0.3"],
    "compare": ["compare", "inputs/bruck.toml"],
    "compare-two-jobs": ["compare", "inputs/studies/two_jobs.toml"],
    "curve": ["curve", UNIFORM, "--loads", "0.1:0.3:0.1"],
}


def simulate(name: str, folder: Path, pyxsim: str) -> str | None:
    """Run one experiment into folder/NAME.h5; return the last line of its error, or None."""
    done = subprocess.run(
        [pyxsim, *RUNS[name], "-o", str(folder / f"{name}.h5")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return (done.stderr.strip().splitlines() or ["no message"])[-1] if done.returncode else None


def difference(name: str, folder: Path, before: Path, pyxsim: str) -> str | None:
    """Compare folder/NAME.h5 with the file of the same name in `before`; return what differs, or None.

    Descriptions of datasets (`long_name`) are documentation, not results: they may differ.
    """
    files = [str(before / f"{name}.h5"), str(folder / f"{name}.h5")]
    words = [pyxsim, "diff", "--json", *files]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if not done.returncode:
        return None
    if "differences" not in done.stdout:
        return str(done.stderr or done.stdout)
    differences = [each for each in json.loads(done.stdout)["differences"] if not each["name"].endswith("@long_name")]
    rows = [f"{each['name']}: {each['what']}, {each['first']} -> {each['second']}" for each in differences]
    return "\n".join(rows) or None


def main() -> int:
    """Run the experiments; exit code 1 if one fails or differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the results go")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="results to compare with")
    parser.add_argument("--only", nargs="+", choices=sorted(RUNS), metavar="NAME", help="these experiments only")
    own = str(Path(sys.executable).with_name("pyxsim"))
    parser.add_argument("--pyxsim", default=own, metavar="FILE", help="the command of another installation")
    args = parser.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    names = args.only or list(RUNS)
    failed = 0
    for name in names:
        problem = simulate(name, folder, args.pyxsim)
        verdict = f"FAILED: {problem}" if problem else "done"
        if problem is None and args.against is not None:
            problem = difference(name, folder, args.against.resolve(), own)
            verdict = f"DIFFERS\n{problem}" if problem else "equal"
        failed += problem is not None
        print(f"{name:20} {verdict}", flush=True)
    print(f"{len(names) - failed} of {len(names)} experiments {'equal' if args.against else 'done'}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
