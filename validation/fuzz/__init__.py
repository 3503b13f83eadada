"""A fuzzer of every reader and command: `make fuzz`, or `python -m validation.fuzz`.

A case is a valid input (`seeds`) that mutators change (`mutate`, `formats`), and a command that reads it. It runs in a
fork of a process that has everything imported, in an empty folder, with limits on time and memory (`sandbox`). Every
case follows from the seed and its number. `findings` holds the inputs that once failed; `--list` prints
which damaged input each command reads.
"""
