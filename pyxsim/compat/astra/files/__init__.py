"""ASTRA-sim's input files as an experiment: networks, systems and workloads of versions 1 and 2.

The result is an ordinary experiment with the `compat` of that version; `resolved_toml` shows it. Every key of a file
has an effect, or is refused with a reason, or is one that ASTRA-sim reads and never uses (docs/formats_astra.md).
"""

from pyxsim.compat.astra.files.experiment import AstraRun, astra_experiment, form_of, read_astra
from pyxsim.compat.astra.files.garnet import network_tables
from pyxsim.compat.astra.files.system import read_system, system_tables

__all__ = ["AstraRun", "astra_experiment", "form_of", "network_tables", "read_astra", "read_system", "system_tables"]
