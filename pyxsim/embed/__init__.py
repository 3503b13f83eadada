"""pyxsim inside other simulators: they send messages, pyxsim says when these arrive (docs/library.md)."""
