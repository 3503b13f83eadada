"""htsim (uet-htsim): its command line, connection matrices and topology files, and the command `pyxsim htsim`.

This file registers what the wing offers (see pyxsim/plugins.py) and imports nothing else.
"""

from pyxsim import plugins

plugins.commands.register("htsim")(plugins.imported("pyxsim.compat.htsim.command:add_to"))
