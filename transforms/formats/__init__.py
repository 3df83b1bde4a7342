"""The input formats: what a file is, how it is cut into records, what a record says."""

__all__: list[str] = []
