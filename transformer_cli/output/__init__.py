"""Results → plain dicts, and dicts → JSON; results → tables. Reads no file, computes nothing; imports no torch.

The dicts hold what JSON can hold, for programs; the tables are for people. The commands print either of them. A module
for each kind of result.
"""
