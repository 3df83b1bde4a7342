"""From a configuration to a job: looks at the vocabulary, the input and the output before anything runs.

Everything a user can get wrong is found here, in seconds, and said in one line.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence

from pipeline.build import Job
from pipeline.config import BuildConfig
from schemas.errors import ConfigError
from transforms.blocks import BlockLayout
from transforms.inputs import InputFile, list_inputs, plan_reads
from transforms.vocabulary import Vocabulary, load_tokenizer

__all__ = [
    "SMALL_INPUT_BYTES",
    "Prepared",
    "choose_workers",
    "default_num_shards",
    "estimate_text_bytes",
    "prepare",
]

#: Below this, starting workers takes longer than the work.
SMALL_INPUT_BYTES = 16 << 20

#: Text bytes that a byte of a compressed file stands for, when only its size is known.
_EXPANSION = {"none": 1, "gz": 3, "bz2": 4, "xz": 4, "zst": 3}

_EVEN_SHARDS = 16
_MANY_SHARDS = 1024


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A job that can run, and what the user should hear first.

    Attributes:
      job: what to run.
      files: the input.
      text_bytes: about how much text is in it.
      workers: processes to run it with; 1 is the command's own.
      warnings: one line each.
    """

    job: Job
    files: tuple[InputFile, ...]
    text_bytes: int
    workers: int
    warnings: tuple[str, ...]


def default_num_shards(text_bytes: int) -> int:
    """Shards for so much text.

    Of 8 MB of text up to 16 shards, so that all cores of a machine have some; then of 16 MB, so that
    memory stays as it is (about 4 million tokens a block, with their plan some 60 MB); from 1,024 shards
    on of 64 MB, since every block costs the shuffle an entry for each spill.
    """
    even, more, many = (-(-text_bytes // (megabytes << 20)) for megabytes in (8, 16, 64))
    if even <= _EVEN_SHARDS:
        return max(1, even)
    return max(_EVEN_SHARDS, min(more, _MANY_SHARDS), many)


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


def choose_workers(num_workers: int | None, *, text_bytes: int) -> int:
    """How many worker processes: as asked, else one for small input and one a core otherwise."""
    if num_workers is not None:
        return num_workers
    return 1 if text_bytes < SMALL_INPUT_BYTES else len(os.sched_getaffinity(0))


def prepare(config: BuildConfig) -> Prepared:
    """Looks everything up.

    Args:
      config: as the user gave it.

    Raises:
      ConfigError: a vocabulary that will not do, no input, an input that contradicts a flag.
    """
    vocabulary = load_tokenizer(config.vocab_file, do_lower_case=config.do_lower_case)
    files = list_inputs(config.input, format=config.format)
    text_bytes = estimate_text_bytes(files)
    workers = choose_workers(config.num_workers, text_bytes=text_bytes)
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
            num_stripes=workers,
            range_bytes=None,
            document_separator=config.document_separator,
        ),
        layout=layout,
        fingerprint=resolved.fingerprint(tokenizer_digest=vocabulary.digest, num_shards=num_shards),
    )
    if config.random_tokens == "regular" and not len(vocabulary.regular_ids):
        raise ConfigError(
            "vocab_file",
            config.vocab_file,
            "has only special and [unused] tokens, none to replace others with at random; "
            "give a whole vocabulary, or --random_tokens all",
        )
    return Prepared(
        job,
        files,
        text_bytes,
        workers,
        (*vocabulary.warnings, *_warnings(resolved, vocabulary, files)),
    )


def _warnings(
    config: BuildConfig, vocabulary: Vocabulary, files: Sequence[InputFile]
) -> Iterator[str]:
    """What is allowed and probably not meant, now that the vocabulary and the input are known."""
    if config.do_whole_word_mask and not vocabulary.is_subword.any():
        yield (
            "--do_whole_word_mask has no effect: no entry of the vocabulary begins with ##, so that "
            "every token counts as a word"
        )
    if config.sentence_splitter == "none" and config.language != "en":
        how = " as BERT's text format" if any(f.format == "text" for f in files) else ""
        yield (
            f"--language={config.language} has no effect: the input is read{how} with a sentence on "
            "each line; running text needs --format prose, or --sentence_splitter sentencex"
        )
