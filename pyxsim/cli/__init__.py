"""L9, the command `pyxsim`: words in, exit codes out. docs/commands.md describes it.

`app.main` is the entry; `commands` holds what can be typed. A command's own code is imported when it is called, so that
`pyxsim --help` is quick.
"""
