"""`pyxsim new`: write a starting project."""

from __future__ import annotations

from pyxsim.cli.command_output import CommandOutput
from pyxsim.study.new_project import new


def write_project(out: CommandOutput, folder: str, template: str) -> None:
    """Run `pyxsim new`."""
    project = new(folder, template=template)
    out.put(project.json())
    out.say(f"wrote {', '.join(f'{folder}/{name}' for name in project.files)}", f"next: {folder}/README.md")
