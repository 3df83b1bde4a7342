"""``python -m train`` is ``bert-train``."""

from __future__ import annotations

import sys

from train.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
