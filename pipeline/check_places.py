"""The folder that an audit writes to meanwhile."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator

from pipeline.output import lock_folder, make_directory
from schemas.errors import ConfigError
from schemas.stores import scheme_of

__all__ = ["scratch_folder"]

_PREFIX = "bert-data-check-"
_HEX = "[0-9a-f]{32}"

#: Folders of killed audits go when they are so old: there are file systems that know no locks.
_OLD_SECONDS = 24 * 3600


@contextlib.contextmanager
def scratch_folder(temp_dir: str | None) -> Iterator[str]:
    """A new folder, gone afterwards; old ones of audits that were killed go as well.

    Args:
      temp_dir: where, made if it is missing; None for the system's.

    Raises:
      ConfigError: it cannot be made or written to.
    """
    base = temp_dir or tempfile.gettempdir()
    if scheme_of(base):
        raise ConfigError("temp_dir", base, "must be a folder on this machine")
    make_directory("temp_dir", base)
    _remove_dead(base)
    with contextlib.ExitStack() as stack:
        # Under another name until it is locked: nobody takes it for an old one.
        made = tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=base)
        folder = os.path.join(base, _PREFIX + uuid.uuid4().hex)
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        lock_folder(made, stack)
        os.rename(made, folder)
        yield folder


def _remove_dead(base: str) -> None:
    """Folders that no living audit has locked."""
    for entry in os.scandir(base):
        if not re.fullmatch(_PREFIX + _HEX, entry.name):
            continue
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            about = entry.stat(follow_symlinks=False)
            old = time.time() - about.st_mtime > _OLD_SECONDS
            own = about.st_uid == os.geteuid() and entry.is_dir(follow_symlinks=False)
            if old and own and lock_folder(entry.path, stack):
                shutil.rmtree(entry.path, ignore_errors=True)
