"""BookSim2: its configuration files as experiments, and the command `pyxsim booksim`.

This file registers what the wing offers (see pyxsim/plugins.py) and imports nothing else.
"""

from pyxsim import plugins

plugins.commands.register("booksim")(plugins.imported("pyxsim.compat.booksim.command:add_to"))
