"""The contracts: what every stage takes and gives, what is written, and what may go wrong.

Nothing here does work. Every other package may import this one; it imports none of them.
"""

#: Version of the output (columns, manifest). A reader refuses a data set with a newer one.
SCHEMA_VERSION = 1

__all__ = ["SCHEMA_VERSION"]
