"""A wheel of this package as it runs here, for workers that have none of it.

It is put together from the modules that are imported here, whether they come from a checkout or from
another wheel, so that nothing has to be built and nobody is asked for anything. It requires the versions
that are installed here: what decides rows is the same on the workers.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

from schemas.errors import ConfigError

__all__ = ["DISTRIBUTION", "write_wheel"]

#: What setup.py calls the package, and the packages that workers import.
DISTRIBUTION = "bert-data"
_PACKAGES = ("pipeline", "runners", "schemas", "transforms")

#: Extras whose packages a step may import: workers get those that are installed here.
_WORKER_EXTRAS = ("chinese", "encodings", "languages", "sentences", "thai", "web")

#: It is in every image of Beam's, with all that it needs, in the version that submits.
_OF_THE_IMAGE = "apache-beam"

_NO_SOURCES = ("__pycache__", "images")

#: The least that a zip knows: the same sources are the same wheel.
_TIME = (1980, 1, 1, 0, 0, 0)


@dataclasses.dataclass(frozen=True)
class _Entry:
    name: str
    data: bytes

    @property
    def record(self) -> str:
        digest = base64.urlsafe_b64encode(hashlib.sha256(self.data).digest()).rstrip(b"=")
        return f"{self.name},sha256={digest.decode()},{len(self.data)}"


def write_wheel(folder: Path, *, runner: str) -> Path:
    """Writes the wheel into ``folder``; its path.

    The version has a digest of the contents behind it, so that no other build of the same version, which
    an image may have, passes for it.

    Args:
      folder: there already.
      runner: whose workers it is for, for the error.

    Raises:
      ConfigError: the package is not installed, so that nobody knows what it needs.
    """
    try:
        installed = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError(
            "runner",
            runner,
            f"its workers need a wheel of {DISTRIBUTION}, which is imported here and not installed: "
            "pip install it, or give --setup_file /its/setup.py or --sdk_container_image",
        ) from None
    sources = list(_sources())
    requires = sorted({f"Requires-Dist: {each}" for each in _pins(installed)})
    digest = hashlib.sha256("\n".join([*requires, *(e.record for e in sources)]).encode())
    version = f"{installed.version.partition('+')[0]}+{digest.hexdigest()[:12]}"
    stem = f"{DISTRIBUTION.replace('-', '_')}-{version}"
    metadata = ["Metadata-Version: 2.1", f"Name: {DISTRIBUTION}", f"Version: {version}", *requires]
    tags = [
        "Wheel-Version: 1.0",
        "Generator: bert-data",
        "Root-Is-Purelib: true",
        "Tag: py3-none-any",
    ]
    info = f"{stem}.dist-info"
    described = [
        *sources,
        _Entry(f"{info}/METADATA", _lines(metadata)),
        _Entry(f"{info}/WHEEL", _lines(tags)),
    ]
    records = [*(entry.record for entry in described), f"{info}/RECORD,,"]
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for entry in (*described, _Entry(f"{info}/RECORD", _lines(records))):
            file.writestr(zipfile.ZipInfo(entry.name, _TIME), entry.data, zipfile.ZIP_DEFLATED)
    return path


def _lines(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _sources() -> Iterator[_Entry]:
    """The modules and the files beside them, from where they are imported here."""
    for package in _PACKAGES:
        found = importlib.util.find_spec(package)
        assert found is not None
        for root in map(Path, found.submodule_search_locations or ()):
            for path in sorted(root.rglob("*")):
                inside = path.relative_to(root)
                if path.is_file() and not set(inside.parts) & set(_NO_SOURCES):
                    yield _Entry(f"{package}/{inside.as_posix()}", path.read_bytes())


def _pins(installed: importlib.metadata.Distribution) -> Iterator[str]:
    """What workers need of what is installed here, in the same versions."""
    for text in installed.requires or ():
        wanted = Requirement(text)
        marker = wanted.marker
        if marker and not any(marker.evaluate({"extra": e}) for e in ("", *_WORKER_EXTRAS)):
            continue
        try:
            version = importlib.metadata.version(wanted.name)
        except importlib.metadata.PackageNotFoundError:
            continue  # an extra that was not wanted
        if wanted.name != _OF_THE_IMAGE:
            yield f"{wanted.name}=={version.partition('+')[0]}"
