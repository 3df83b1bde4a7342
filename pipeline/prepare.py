"""From a configuration to a job: looks at the vocabulary, the input and the output before anything runs.

Everything a user can get wrong is found here, in seconds, and said in one line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pipeline.build import Job
from pipeline.config import BuildConfig
from schemas.errors import ConfigError
from transforms.blocks import BlockLayout
from transforms.inputs import InputFile, list_inputs, plan_reads
from transforms.vocabulary import load_tokenizer

__all__ = ["Prepared", "default_num_shards", "prepare"]

#: Text bytes that a byte of a compressed file stands for, when only its size is known.
_EXPANSION = {"none": 1, "gz": 3, "bz2": 4, "xz": 4, "zst": 3}

_SMALL_SHARD_BYTES = 8 << 20
_SHARD_BYTES = 64 << 20
_EVEN_SHARDS = 16


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A job that can run, and what the user should hear first."""

    job: Job
    files: tuple[InputFile, ...]
    text_bytes: int
    warnings: tuple[str, ...]


def default_num_shards(text_bytes: int) -> int:
    """Shards for so much text: 8 MB each up to 16 shards, enough for the cores of one machine; then 64 MB.

    A block of 64 MB is about 16 million tokens; with its plan it takes some 200 MB of memory.
    """
    small = -(-text_bytes // _SMALL_SHARD_BYTES)
    if small <= _EVEN_SHARDS:
        return max(1, small)
    return max(_EVEN_SHARDS, -(-text_bytes // _SHARD_BYTES))


def estimate_text_bytes(files: Sequence[InputFile]) -> int:
    """Bytes of text in the input, from the listed sizes alone."""
    return sum(file.size * _EXPANSION[file.compression] for file in files)


def _resolve_splitter(config: BuildConfig, files: Sequence[InputFile]) -> str:
    if config.sentence_splitter != "auto":
        return config.sentence_splitter
    wanted = {"none" if file.format == "text" else "sentencex" for file in files}
    if len(wanted) > 1:
        raise ConfigError(
            "sentence_splitter",
            "auto",
            "the input is partly BERT's text format, one sentence a line, and partly running text; "
            "say --sentence_splitter none or sentencex",
        )
    return wanted.pop()


def prepare(config: BuildConfig, *, num_readers: int) -> Prepared:
    """Looks everything up.

    Args:
      config: as the user gave it.
      num_readers: workers that should all have something to read, even of one compressed file.

    Raises:
      ConfigError: a vocabulary that will not do, no input, an input that contradicts a flag.
    """
    vocabulary = load_tokenizer(config.vocab_file, do_lower_case=config.do_lower_case)
    files = list_inputs(config.input, format=config.format)
    text_bytes = estimate_text_bytes(files)
    num_shards = config.num_shards or default_num_shards(text_bytes)
    resolved = dataclasses.replace(
        config,
        sentence_splitter=_resolve_splitter(config, files),
        do_lower_case=vocabulary.do_lower_case,
        num_shards=num_shards,
    )
    validation = config.validation_fraction
    layout = BlockLayout(
        random_seed=config.random_seed,
        num_shards=num_shards,
        num_validation_shards=max(1, round(num_shards * validation)) if validation else 0,
        validation_fraction=validation,
    )
    job = Job(
        config=resolved,
        vocabulary=vocabulary,
        tasks=plan_reads(
            files,
            num_stripes=num_readers,
            range_bytes=None,
            document_separator=config.document_separator,
        ),
        layout=layout,
        fingerprint=resolved.fingerprint(tokenizer_digest=vocabulary.digest, num_shards=num_shards),
    )
    return Prepared(job, files, text_bytes, vocabulary.warnings)
