"""What settings mean together: defaults that depend on others, contradictions, what has no effect.

Each field for itself is checked by its kind (``pipeline.settings``); here are the rules that name
two fields or more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from schemas.errors import ConfigError
from transforms.formats.encodings import require_encoding

if TYPE_CHECKING:
    from pipeline.config import BuildConfig

__all__ = ["check_together", "default_predictions", "far_predictions", "without_effect"]

#: Settings that say something of one objective only, with the value that says nothing.
_OF_OBJECTIVE: dict[str, tuple[tuple[str, ...], Any]] = {
    "not_next_share": (("nsp", "sop"), 0.5),
    "single_segment": (("sop",), "split"),
    "mlm_packing": (("mlm",), "full"),
    "sep_between_documents": (("mlm",), False),
    "drop_last": (("mlm",), False),
}

#: A row group with the masks of so many passes still fits into memory.
_SHARED_PASSES = 100


def default_predictions(max_seq_length: int, *, masked_lm_prob: float) -> int:
    """The cap on predictions when none is given: the whole part of length * probability.

    At least 1, and 20 for 128 at 0.15: with 76 for 512 these are the pairs of the reference's
    README and of the released models, and no rounding gives both.
    """
    if (max_seq_length, masked_lm_prob) == (128, 0.15):
        return 20
    return max(1, int(max_seq_length * masked_lm_prob))


def check_together(config: BuildConfig) -> None:
    """Refuses settings that contradict each other.

    Raises:
      ConfigError: names the setting to change, its value and the remedy.
    """
    _check_predictions(config)
    _check_shares(config)
    _check_passes(config)
    require_encoding(config.encoding)
    if config.reference_groups != "all" and not config.exact_reference:
        raise ConfigError(
            "reference_groups",
            config.reference_groups,
            "is for --exact_reference; give that too, or leave it out",
        )
    if config.resume and config.overwrite:
        raise ConfigError("resume", True, "cannot go with --overwrite; give one of them")
    if config.document_separator is not None and config.format != "prose":
        raise ConfigError(
            "document_separator",
            config.document_separator,
            f"is for running text only; give --format prose too (it is {config.format})",
        )


def _check_predictions(config: BuildConfig) -> None:
    lengths, predictions = config.max_seq_length, config.max_predictions_per_seq
    if len(lengths) != len(predictions):
        write = ",".join(
            str(default_predictions(n, masked_lm_prob=config.masked_lm_prob)) for n in lengths
        )
        raise ConfigError(
            "max_predictions_per_seq",
            predictions,
            f"must have one number for each of the {len(lengths)} lengths of --max_seq_length; "
            f"write --max_predictions_per_seq {write} or leave it out",
        )
    for length, prediction in zip(lengths, predictions, strict=True):
        if prediction > length:
            raise ConfigError(
                "max_predictions_per_seq", prediction, f"must be at most the length, {length}"
            )


def _check_shares(config: BuildConfig) -> None:
    shares = (config.mask_token_share, config.random_token_share, config.kept_token_share)
    if not math.isclose(sum(shares), 1, abs_tol=1e-9):
        raise ConfigError(
            "mask_token_share",
            config.mask_token_share,
            f"must add up to 1 with --random_token_share={config.random_token_share} and "
            f"--kept_token_share={config.kept_token_share}; the sum is {sum(shares):g}",
        )


def _check_passes(config: BuildConfig) -> None:
    if config.layout == "shared" and config.masking == "none":
        raise ConfigError(
            "layout", "shared", "stores masks, and --masking=none draws none; leave one of them out"
        )
    if config.layout == "shared" and config.dupe_mode != "remask":
        raise ConfigError(
            "layout",
            "shared",
            "stores each row once for all passes, which --dupe_mode=resegment makes anew; "
            "give --dupe_mode remask",
        )
    if config.layout == "shared" and config.dupe_factor > _SHARED_PASSES:
        raise ConfigError(
            "dupe_factor",
            config.dupe_factor,
            f"is more than the {_SHARED_PASSES} passes that a row of --layout=shared may hold; give "
            "fewer, or --layout separate",
        )
    if config.masking == "none" and config.dupe_mode == "remask" and config.dupe_factor > 1:
        raise ConfigError(
            "dupe_mode",
            "remask",
            f"would write every row {config.dupe_factor} times, since --masking=none draws no "
            "masks; give --dupe_factor 1 or --dupe_mode resegment",
        )


def far_predictions(config: BuildConfig) -> Iterator[str]:
    """A line for each cap on predictions that is far from what the probability asks for."""
    for length, cap in zip(config.max_seq_length, config.max_predictions_per_seq, strict=True):
        asked = length * config.masked_lm_prob
        usual = default_predictions(length, masked_lm_prob=config.masked_lm_prob)
        if cap == usual or asked / 1.5 <= cap <= asked * 1.5:
            continue
        effect = "rows get fewer masks" if cap < asked else "that many are never reached"
        yield (
            f"--max_predictions_per_seq={cap} is far from the {asked:.1f} tokens that "
            f"--masked_lm_prob={config.masked_lm_prob} asks for at "
            f"--max_seq_length={length}: {effect}; the usual number is {usual}"
        )


def without_effect(config: BuildConfig) -> Iterator[str]:
    """A line for each setting that changes nothing beside the others."""
    for name, (objectives, usual) in _OF_OBJECTIVE.items():
        value = getattr(config, name)
        if value != usual and config.objective not in objectives:
            yield _no_effect(name, value, f"is for --objective {' and '.join(objectives)}")
    if config.split_long_sentences and config.objective == "mlm":
        yield _no_effect("split_long_sentences", True, "is for --objective nsp and sop")
    if config.sep_between_documents and config.mlm_packing == "document":
        yield _no_effect(
            "sep_between_documents", True, "is for rows across documents, --mlm_packing full"
        )
    if config.mask_per == "word" and not config.do_whole_word_mask:
        yield _no_effect("mask_per", "word", "is for --do_whole_word_mask; a piece is a word here")
    if config.word_segmenter != "none" and not config.do_whole_word_mask:
        yield _no_effect("word_segmenter", config.word_segmenter, "is for --do_whole_word_mask")
    if config.mask_per == "ngram" and config.max_ngram_size == 1:
        yield _no_effect("mask_per", "ngram", "is word without --max_ngram_size 2 or more")
    if config.dupe_mode == "remask" and config.dupe_factor == 1:
        yield _no_effect("dupe_mode", "remask", "needs more passes than one, --dupe_factor")


def _no_effect(name: str, value: Any, why: str) -> str:
    return f"--{name}={value} has no effect: it {why}"
