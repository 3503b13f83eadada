"""Settings: typed tables with units, defaults and help texts; reading, overriding and writing them.

`load_experiment` reads a TOML file or a dict and raises InputError with all problems that it finds;
`resolved_toml` writes every setting as TOML, which reads back to an equal experiment.
"""

from __future__ import annotations

from pyxsim.settings.algorithms import canonical_algorithm
from pyxsim.settings.collective import Collective, Message
from pyxsim.settings.experiment import Experiment
from pyxsim.settings.load import folder_of, load_experiment, resolved_toml
from pyxsim.settings.network import Dimension, Network, PipelineTable, RouterSettings, Stages
from pyxsim.settings.output import Output
from pyxsim.settings.system import System
from pyxsim.settings.toml import read_toml
from pyxsim.settings.types import per_dimension
from pyxsim.settings.workload import Workload

__all__ = [
    "Collective",
    "Dimension",
    "Experiment",
    "Message",
    "Network",
    "Output",
    "PipelineTable",
    "RouterSettings",
    "Stages",
    "System",
    "Workload",
    "canonical_algorithm",
    "folder_of",
    "load_experiment",
    "per_dimension",
    "read_toml",
    "resolved_toml",
]
