"""``python -m train`` is ``bert-train``."""

from __future__ import annotations

from train.cli import command

__all__: list[str] = []

if __name__ == "__main__":
    command()
