"""Inputs that once ended in a traceback, a hang or too much memory: each is refused in a line now."""
