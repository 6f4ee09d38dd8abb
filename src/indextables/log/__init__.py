"""Which files make up the table? Actions, replay, snapshots and the commit."""
