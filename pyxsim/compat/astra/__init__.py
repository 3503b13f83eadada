"""ASTRA-sim 1 and 2: input files, system layer, output tables, and the command `pyxsim astra`.

This file registers what the wing offers (see pyxsim/plugins.py) and imports nothing else.
"""

from pyxsim import plugins

for _version in ("astra-sim-1", "astra-sim-2"):
    plugins.system_layers.register(_version)(plugins.imported("pyxsim.compat.astra.system.astra_system:AstraSystem"))
    plugins.job_classes.register(_version)(plugins.imported("pyxsim.compat.astra.workload.job_classes:job_class"))
plugins.system_files.register("astra-sim")(plugins.imported("pyxsim.compat.astra.files.system:read_system"))
plugins.network_files.register("astra-sim", suffixes=(".json", ".yml", ".yaml"))(
    plugins.imported("pyxsim.compat.astra.files.experiment:read_network")
)
plugins.commands.register("astra")(plugins.imported("pyxsim.compat.astra.command:add_to"))
