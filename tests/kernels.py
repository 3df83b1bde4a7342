"""Kernels that this checkout has compiled, lent to a copy of the package elsewhere.

To compile all of them takes a minute of a core or more. They are the same wherever the same sources are,
but numba looks for them by the path; where it goes by a file's time as well, they are compiled anew.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from numba.core.caching import UserProvidedCacheLocator

import transforms

__all__ = ["lend_kernels"]


def lend_kernels(package: Path, cache: Path, *, but: str | None = None) -> None:
    """Copies what there is, which may be nothing; what is missing is compiled there.

    Args:
      package: the folder of the copy's ``transforms``; of the same sources.
      cache: ``NUMBA_CACHE_DIR`` of those who use it.
      but: a kernel's name, such as ``masking.mask_rows``: it is not lent.
    """
    folder_of = UserProvidedCacheLocator.get_suitable_cache_subpath
    kept = Path(os.environ["NUMBA_CACHE_DIR"])
    there = cache / kept.name / folder_of(str(package / "__init__.py"))
    # An index before what it names, which another process may be adding to just now.
    for suffix in ("nbi", "nbc"):
        for path in (kept / folder_of(transforms.__file__)).glob(f"*.{suffix}"):
            if but is None or not path.name.startswith(f"{but}-"):
                there.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, there)
