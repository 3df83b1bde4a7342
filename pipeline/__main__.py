"""``python -m pipeline`` is ``bert-data``."""

from __future__ import annotations

from pipeline.cli import command

__all__: list[str] = []

if __name__ == "__main__":
    command()
