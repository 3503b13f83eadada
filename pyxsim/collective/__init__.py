"""Collective algorithms: the language they are written in, the proof that they are right, and plans over dimensions."""
