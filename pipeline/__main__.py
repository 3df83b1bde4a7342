"""``python -m pipeline`` is ``bert-data``."""

from __future__ import annotations

import sys

from pipeline.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
