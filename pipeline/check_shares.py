"""Realised shares of a data set beside those that were asked for, with how exactly they are known."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping

from pipeline.check_totals import FAR, Totals
from schemas.manifest import DataSet, Manifest
from transforms.audit_chance import largest_likely
from transforms.audit_counts import CHANCE_BITS, Counted
from transforms.audit_rules import Violation

__all__ = ["Share", "equal_passes", "far_shares", "shares", "wilson"]

#: The two-sided 95% point of the normal distribution.
_Z = 1.959964

#: Distinct documents a block needs on average, that none of them holds a single one.
_MANY_DOCUMENTS = 30


def wilson(part: float, whole: float) -> tuple[float, float]:
    """The 95% confidence interval of a share (Wilson 1927)."""
    if whole <= 0:
        return 0.0, 1.0
    p, z2 = part / whole, _Z * _Z
    middle = (p + z2 / (2 * whole)) / (1 + z2 / whole)
    half = _Z / (1 + z2 / whole) * math.sqrt(p * (1 - p) / whole + z2 / (4 * whole * whole))
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclasses.dataclass(frozen=True)
class Share:
    """A realised share beside the one that was asked for.

    Attributes:
      name: for people.
      value: realised.
      low, high: its 95% confidence interval.
      asked: by the configuration.
      far: whether chance cannot explain the difference.
    """

    name: str
    value: float
    low: float
    high: float
    asked: float
    far: bool = False

    @property
    def inside(self) -> bool:
        """Whether what was asked for is in the interval."""
        return self.low <= self.asked <= self.high


def shares(manifest: Manifest, d: DataSet, totals: Totals) -> list[Share]:
    """Realised shares with their intervals; ``far`` where chance cannot explain the difference."""
    config, found = manifest.configuration, []
    masked, rows = totals[Counted.PREDICTIONS], totals[Counted.ROWS]
    if masked:
        units = masked * masked / max(1, totals[Counted.SQUARES])
        drawable = totals[Counted.DRAWABLE] / masked
        asked = _asked_fates(config, totals.random_ids, drawable)
        for name, counted in (
            ("[MASK]", Counted.MASK),
            ("random", Counted.RANDOM),
            ("kept", Counted.KEPT),
        ):
            found.append(_share(name, totals[counted] / masked, units, asked[name]))
        passes = int(config["dupe_factor"]) if manifest.layout == "shared" else 1
        value = masked / (totals[Counted.TOKENS] * passes)
        low, high = wilson(masked, totals[Counted.TOKENS] * passes)
        # Length and cap decide it row by row, which the rows themselves are held to.
        found.append(Share("masked", value, low, high, float(config["masked_lm_prob"])))
    if rows and manifest.objective != "mlm":
        found.append(_label_share(manifest, d, totals))
    return found


def _asked_fates(
    config: Mapping[str, object], random_ids: int, drawable: float
) -> dict[str, float]:
    """The shares as they look: a random draw may be the token itself, if that is ``drawable``."""
    mask, random, kept = (
        float(str(config.get(f"{name}_token_share", usual)))
        for name, usual in (("mask", 0.8), ("random", 0.1), ("kept", 0.1))
    )
    hit = random / random_ids
    more = hit if config.get("random_tokens") == "all" else 0.0
    itself = hit * drawable
    return {"[MASK]": mask + more, "random": random - itself - more, "kept": kept + itself}


def _share(name: str, value: float, n: float, asked: float) -> Share:
    low, high = wilson(value * n, n)
    return Share(name, value, low, high, asked, _is_far(value, asked, n))


def _is_far(value: float, asked: float, n: float) -> bool:
    spread = math.sqrt(max(0.0, asked * (1 - asked)) / max(1.0, n))
    return abs(value - asked) > FAR * spread + 1 / max(1.0, n) + 1e-9


def _label_share(manifest: Manifest, d: DataSet, totals: Totals) -> Share:
    """Label 1. For nsp it is steered, up from what chunks of one sentence force."""
    config, rows = manifest.configuration, totals[Counted.ROWS]
    asked = float(config.get("not_next_share", 0.5))
    value = totals[Counted.LABEL_1] / rows
    # Of masks drawn again the same rows are there several times.
    again = config.get("dupe_mode") == "remask" and manifest.layout == "separate"
    n = rows / (int(config["dupe_factor"]) if again else 1)
    low, high = wilson(value * n, n)
    slack = FAR * math.sqrt(max(asked * (1 - asked), 1 / n) / n) + len(d.shards) * 8 / n
    far = abs(value - asked) > slack
    if manifest.objective == "nsp":
        counts = manifest.counts
        distinct = counts.documents - counts.duplicate_documents - counts.documents_without_tokens
        blocks = sum(len(e.shards) for e in manifest.data_sets if e.name == d.name)
        below = value < asked - slack and distinct > _MANY_DOCUMENTS * blocks
        above = value > asked + (d.rates.single_segment_not_next or 0) + slack
        far = (below or above) and not config.get("exact_reference")
    name = "NotNext" if manifest.objective == "nsp" else "swapped"
    return Share(name, value, low, high, asked, far)


def equal_passes(totals: Totals, where: str) -> Iterator[Violation]:
    """Passes of a row, of layout shared, with the same masks, more than chance can explain."""
    equal = totals[Counted.EQUAL_PASSES]
    chance = totals[Counted.EQUAL_BY_CHANCE] / 2.0**CHANCE_BITS
    if equal > largest_likely(chance):
        words = (
            f"{equal:,} passes of rows have the masks of an earlier pass of the row; chance explains "
            f"at most {chance:,.1f} on average"
        )
        yield Violation("same_masks", words, where)


def far_shares(found: Iterable[Share], where: str) -> Iterator[Violation]:
    """A violation for each share that chance cannot explain."""
    for share in found:
        if share.far:
            words = (
                f"{share.name} is {share.value:.4%} ({share.low:.4%} to {share.high:.4%}), "
                f"asked for was {share.asked:.4%}"
            )
            yield Violation("share", words, where)
