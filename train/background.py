"""Work done in threads, ahead of whoever takes the results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["map_ahead"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_ahead(
    function: Callable[[Item], Result], items: Iterable[Item], *, threads: int, ahead: int
) -> Iterator[Result]:
    """``map(function, items)``, in the same order, computed by threads before it is asked for.

    An error of ``function`` is raised here. The threads end with the iterator: after the last result,
    after an error, or when it is closed.

    Args:
      function: what is done in the threads.
      items: taken from in the caller's thread.
      threads: how many.
      ahead: results that are computed, or being computed, beyond the one that was asked for.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="bert-loader")
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
