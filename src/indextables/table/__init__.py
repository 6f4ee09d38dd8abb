"""What can a user do? The verbs over log and split, for the embedded table and for Spark alike.

rows         data of callers becomes rows of the table
writing      rows become splits and actions
read         what a read touches: plans, scans, searches, tails
merge        small splits become large ones
maintenance  the operator's verbs

Each room's `__init__` is its surface; a room imports from those above it in this list. The verbs that write stand
beside the rooms: create, append, overwrite.
"""
