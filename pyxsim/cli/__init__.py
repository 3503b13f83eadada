"""L9, the command `pyxsim`: arguments in, exit codes out. docs/commands.md describes it.

`app.main` is the entry; `commands` defines all commands and options. The code of a command is imported when it is
called, so that `pyxsim --help` is quick.
"""
