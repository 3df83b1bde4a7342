"""Whether the passes over the corpus are alike, as they are where only masks are drawn again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from schemas.manifest import Manifest
from transforms.audit_reports import ShardReport
from transforms.audit_rules import Violation, has_copies

__all__ = ["check_passes"]

#: Passes that agree in all of this by chance, once in 2^80, were not drawn anew.
_CERTAIN_BITS = 80.0


def check_passes(
    manifest: Manifest, reports: Sequence[ShardReport], where: str
) -> Iterator[Violation]:
    """With ``remask`` all passes are made of the same sentences, with ``resegment`` each of its own.

    Needs provenance and more than one pass in rows of their own; nothing is said of what the reference
    makes, nor of ``resegment`` where documents are there several times.
    """
    config = manifest.configuration
    separate = manifest.layout == "separate" and not config.get("exact_reference")
    if not config.get("provenance") or not separate or config["dupe_factor"] < 2:
        return
    again = config.get("dupe_mode") == "remask"
    unlike = [r.task.path for r in reports if len(set(r.sums)) > 1]
    if again and unlike:
        words = "dupe_mode is remask, but its passes are not made of the same sentences"
        yield from (Violation("dupe_mode", words, path) for path in unlike)
    if again or unlike or has_copies(manifest):
        return
    # A chunk is divided anywhere; documents follow one another in any of (joints + 1)! orders.
    bits = sum(r.drawn[0] + math.lgamma(r.drawn[1] + 2) / math.log(2) for r in reports)
    if bits > _CERTAIN_BITS:
        words = "dupe_mode is resegment, but all passes are made of the same sentences"
        yield Violation("dupe_mode", words, where)
