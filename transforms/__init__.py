"""The steps of the pipeline, a file each: a pure function under a PTransform.

Importing this package decides where numba keeps the compiled kernels. To tell whether one is stale, numba
looks only at the file it stands in, but kernels use functions and constants of other files: after an
upgrade it could go on with old draws. So the folder is named by a digest of all the sources.
"""

import hashlib
import os
import sys
from pathlib import Path

__all__ = ["SOURCES_DIGEST", "has_kernel"]


def _digest_sources() -> str:
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in [*sorted(here.glob("*.py")), here.parent / "schemas" / "arrow.py"]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


#: Of every file that decides rows or holds a kernel.
SOURCES_DIGEST = _digest_sources()


def _keep_kernels() -> None:
    if "NUMBA_CACHE_DIR" in os.environ and SOURCES_DIGEST in os.environ["NUMBA_CACHE_DIR"]:
        return
    beside = Path(__file__).parent / "__pycache__"
    of_user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bert-data"
    root = Path(os.environ.get("NUMBA_CACHE_DIR") or (beside if _writable(beside) else of_user))
    os.environ["NUMBA_CACHE_DIR"] = str(root / f"kernels-{SOURCES_DIGEST}")
    if "numba" in sys.modules:
        sys.modules["numba"].config.reload_config()


def has_kernel(name: str) -> bool:
    """Whether a kernel, such as ``pairing.plan_pairs``, is compiled; the first run has to, for a while."""
    return any(Path(os.environ["NUMBA_CACHE_DIR"]).glob(f"**/{name}-*.nbi"))


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


_keep_kernels()
