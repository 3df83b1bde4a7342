"""The sizes of BERT that were published, and how many parameters they have. Nothing here needs torch."""

from __future__ import annotations

import re

from schemas.errors import ConfigError

__all__ = ["HEAD_SIZE", "POSITIONS", "PRESETS", "SMALL_MODELS", "count_parameters", "model_shape"]

#: Layers and hidden size: those of Devlin et al. (base, large) and Turc et al., arXiv:1908.08962.
PRESETS = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}

#: The 24 of Turc et al., layers and hidden size; tiny to base are among them.
SMALL_MODELS = tuple((L, H) for L in (2, 4, 6, 8, 10, 12) for H in (128, 256, 512, 768))

#: BERT's size of an attention head.
HEAD_SIZE = 64

#: BERT's number of position embeddings; more only for longer rows.
POSITIONS = 512


def model_shape(model: str) -> tuple[int, int]:
    """Layers and hidden size of a preset or an ``"L,H"``; ``ConfigError`` if it is neither."""
    if model in PRESETS:
        return PRESETS[model]
    if match := re.fullmatch(r"(\d+),(\d+)", model):
        layers, hidden = int(match[1]), int(match[2])
        if layers and hidden and hidden % HEAD_SIZE == 0:
            return layers, hidden
    raise ConfigError(
        "model",
        model,
        f"must be one of {', '.join(PRESETS)}, or layers and hidden size, such as 4,256, "
        f"the size a multiple of {HEAD_SIZE}",
    )


def count_parameters(
    layers: int, hidden: int, *, vocab_size: int, positions: int = POSITIONS
) -> int:
    """Of encoder and both heads, which is what the published numbers count (base: 110.1 million).

    With L layers of size H, V entries and P positions::

      embeddings     (V + P + 2) H + 2 H              tokens, positions, segments; LayerNorm
      a layer        4 (H² + H) + 2 H                 query, key, value, output; LayerNorm
                     + (4 H² + 4 H) + (4 H² + H) + 2 H    up, down; LayerNorm
                     = 12 H² + 13 H
      pooler         H² + H
      masked tokens  H² + H + 2 H + V                 transform, LayerNorm, bias; the matrix is
                                                      that of the embeddings
      next sentence  2 H + 2
    """
    embeddings = (vocab_size + positions + 2) * hidden + 2 * hidden
    encoder = embeddings + layers * (12 * hidden**2 + 13 * hidden) + hidden**2 + hidden
    return encoder + hidden**2 + 3 * hidden + vocab_size + 2 * hidden + 2
