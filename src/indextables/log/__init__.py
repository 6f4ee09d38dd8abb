"""Which files make up the table? The log: actions, checkpoints, replay, snapshots and the commit.

wire        the bytes and values of the log, without I/O
checkpoint  the whole table at one version, in every format
read        what is newest, and what the table is at a version
commit      from staged changes to an outcome
care        after and beside commits: checkpoints, cleanup, repair, verification, intents

Each room's `__init__` is its surface; a room imports from those above it in this list.
"""
