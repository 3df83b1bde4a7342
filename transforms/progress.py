"""A process-wide hook through which the steps say how far they are.

Diagnostics only: nothing that is written may depend on it. Amounts may be counted twice when a
bundle is retried, and nothing is reported where nobody listens.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Listener", "report", "set_listener"]

#: Called with amounts done since the last call, e.g. ``listener(raw_bytes=1048576, documents=50)``.
Listener = Callable[..., None]

_listener: Listener | None = None


def set_listener(listener: Listener | None) -> None:
    """Send the reports of this process to ``listener``; None stops them."""
    global _listener
    _listener = listener


def report(**amounts: int) -> None:
    """Tell the listener, if there is one, of work done since the last report."""
    if _listener is not None:
        _listener(**amounts)
