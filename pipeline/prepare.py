"""From a configuration to a job: looks at the vocabulary, the input and the output before anything runs.

Everything a user can get wrong is found here, in seconds, and said in one line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence

from pipeline.build import Job
from pipeline.config import MOST_SHARDS, BuildConfig
from pipeline.reference import as_the_reference, list_groups, resolved_otherwise
from schemas.errors import ConfigError
from schemas.stores import require_folder
from transforms.beginnings import read_beginning
from transforms.blocks import BlockLayout
from transforms.formats.registry import FORMATS, require_packages
from transforms.formats.unwrapping import is_hard_wrapped
from transforms.inputs import InputFile, list_inputs
from transforms.language_codes import is_language, meant_by
from transforms.languages import AUTO, require_detector
from transforms.read_tasks import plan_reads
from transforms.reader import ReadOptions
from transforms.reference_groups import FileGroup
from transforms.reference_tokenizer import reference_vocabulary
from transforms.splitters import require_splitter
from transforms.vocabulary import Vocabulary, load_tokenizer
from transforms.word_segments import count_chinese, require_segmenter

__all__ = [
    "SMALL_INPUT_BYTES",
    "Prepared",
    "choose_workers",
    "default_num_shards",
    "estimate_text_bytes",
    "find_inputs",
    "prepare",
    "read_options",
    "resolve_splitter",
]

#: Below this, starting workers takes longer than the work.
SMALL_INPUT_BYTES = 16 << 20

#: Text bytes that a byte of a compressed file stands for, when only its size is known.
_EXPANSION = {"none": 1, "gz": 3, "bz2": 4, "xz": 4, "zst": 3}

#: Chinese characters in a vocabulary from which on its text may well be Chinese, and the share of them
#: from which on it is (35% in bert-base-chinese, 6% in the multilingual one, 1% in the English one).
_MANY_CHINESE, _CHINESE_SHARE = 1000, 0.2

#: Files that are looked at for full lines, and how much of each.
_LOOKED_AT, _BEGINNING_BYTES = 3, 1 << 16

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
    on of 64 MB, since every block costs the shuffle an entry for each spill. From 6.7 TB on they grow:
    names have room for 99,999.
    """
    even, more, many = (-(-text_bytes // (megabytes << 20)) for megabytes in (8, 16, 64))
    if even <= _EVEN_SHARDS:
        return max(1, even)
    return min(MOST_SHARDS, max(_EVEN_SHARDS, min(more, _MANY_SHARDS), many))


def estimate_text_bytes(files: Sequence[InputFile]) -> int:
    """Bytes of text in the input, from the listed sizes alone."""
    return sum(
        int(file.size * _EXPANSION[file.compression] * FORMATS[file.format].expansion)
        for file in files
    )


def resolve_splitter(config: BuildConfig, files: Sequence[InputFile]) -> str:
    """What finds the sentences of documents that do not bring them along.

    Raises:
      ConfigError: ``auto``, and files of both kinds.
    """
    if config.sentence_splitter != "auto":
        return config.sentence_splitter
    filled = [file for file in files if file.size]  # an empty one may be of any kind
    wanted = {
        "none" if FORMATS[file.format].a_sentence_a_line else "sentencex": file.path
        for file in filled or files
    }
    if len(wanted) > 1:
        raise ConfigError(
            "sentence_splitter",
            "auto",
            f"the input is partly BERT's text format, one sentence a line ({wanted['none']}), and partly "
            f"running text ({wanted['sentencex']}); say --sentence_splitter none or sentencex",
        )
    return next(iter(wanted))


def find_inputs(config: BuildConfig) -> tuple[InputFile, ...]:
    """The files of the input, and how each is read.

    Raises:
      ConfigError: see ``transforms.inputs.list_inputs``, or a package is not installed.
    """
    files = list_inputs(
        config.input, format=config.format, encoding=config.encoding, split=config.split
    )
    require_packages(file.format for file in files)
    return files


def read_options(config: BuildConfig) -> ReadOptions:
    """How their records are read."""
    fields = dataclasses.fields(ReadOptions)
    return ReadOptions(
        **{f.name: getattr(config, f.name) for f in fields if hasattr(config, f.name)}
    )


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
      ConfigError: a vocabulary that will not do, no input, an input that contradicts a flag, a
        package that is not installed, a folder that cannot be named.
    """
    require_folder("output", config.output)
    if config.temp_dir:
        require_folder("temp_dir", config.temp_dir)
    require_segmenter(config.word_segmenter)
    require_splitter(config.sentence_splitter, language=config.language)
    require_detector(config.language)
    vocabulary = load_tokenizer(config.vocab_file, do_lower_case=config.do_lower_case)
    groups: tuple[FileGroup, ...] = ()
    adapted: tuple[str, ...] = ()
    if config.exact_reference:
        vocabulary = reference_vocabulary(vocabulary)
        files, groups = list_groups(config)
        adapted = tuple(resolved_otherwise(config))
        config = as_the_reference(config, num_groups=len(groups))
    else:
        files = find_inputs(config)
    text_bytes = estimate_text_bytes(files)
    workers = choose_workers(config.num_workers, text_bytes=text_bytes)
    if groups:
        workers = min(workers, len(groups))
    num_shards = config.num_shards or default_num_shards(text_bytes)
    resolved = dataclasses.replace(
        config,
        sentence_splitter=resolve_splitter(config, files),
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
        tasks=()
        if groups
        else plan_reads(
            files,
            num_stripes=workers,
            range_bytes=None,
            document_separator=config.document_separator,
        ),
        layout=layout,
        fingerprint=resolved.fingerprint(tokenizer_digest=vocabulary.digest, num_shards=num_shards),
        groups=groups,
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
        (
            *vocabulary.warnings,
            *adapted,
            *_warnings(resolved, vocabulary, files),
            *_hard_wrapped(config, files),
        ),
    )


def _warnings(
    config: BuildConfig, vocabulary: Vocabulary, files: Sequence[InputFile]
) -> Iterator[str]:
    """What is allowed and probably not meant, now that the vocabulary and the input are known."""
    if config.do_whole_word_mask:
        yield from _without_words(config, vocabulary)
    if not is_language(config.language) and config.language != AUTO:
        meant = meant_by(config.language)
        yield (
            f"--language={config.language} is no language of ISO 639"
            + (
                f"; did you mean {meant}?"
                if meant
                else ", and is split by rules for languages in general"
            )
        )
    if config.sentence_splitter == "none" and config.language != "en":
        how = " as BERT's text format" if any(f.format == "text" for f in files) else ""
        yield (
            f"--language={config.language} has no effect: the input is read{how} with a sentence on "
            "each line; running text needs --format prose, or --sentence_splitter sentencex"
        )


def _hard_wrapped(config: BuildConfig, files: Sequence[InputFile]) -> Iterator[str]:
    """Where a line break is taken for the end of a sentence, and ends no more than a full line."""
    formats = {"prose"} if config.document_separator is None else set()
    if (config.format, config.sentence_splitter) == ("auto", "auto"):  # nobody said how it is
        formats.add("text")
    filled = (file for file in files if file.size and file.format in formats)
    for file in itertools.islice(filled, _LOOKED_AT):
        with contextlib.suppress(OSError):  # which is told when it is read
            head = read_beginning(
                file.path, _BEGINNING_BYTES, compression=file.compression, encoding=file.encoding
            )
            lines = head.decode(errors="replace").replace("\r\n", "\n")
            if is_hard_wrapped(lines.rpartition("\n")[0]):
                yield (
                    f"{file.path} looks like paragraphs with a line break wherever a line was full, "
                    f"which is taken for the end of a sentence in {file.format}; --format gutenberg "
                    "joins such lines, and takes a file for a document: give several, or --objective mlm"
                )
                return


def _without_words(config: BuildConfig, vocabulary: Vocabulary) -> Iterator[str]:
    """Where whole words are asked for and a token is a word, or nothing marks words at all."""
    marks, tokens = vocabulary.word_marks, vocabulary.tokens
    if config.word_segmenter != "none":
        return
    chinese = count_chinese([marks.text(t) for t in tokens] if marks.marks_first else tokens)
    segment = 'give --word_segmenter jieba (pip install "bert-data[chinese]")'
    if not vocabulary.is_subword.any():
        have = "begins without" if marks.marks_first else "begins with"
        yield (
            f"--do_whole_word_mask has no effect: no entry of the vocabulary {have} {marks.mark}, so "
            f"that every token counts as a word{f'; {segment}' if chinese > _MANY_CHINESE else ''}"
        )
    elif chinese > _CHINESE_SHARE * len(tokens):
        effect = "has no effect on Chinese, of which every character counts as a word"
        if marks.marks_first:
            effect = "takes Chinese between two spaces for one word, mostly too long to be masked"
        yield (
            f"--do_whole_word_mask {effect}, and {chinese:,} entries of the vocabulary are Chinese "
            f"characters; {segment}"
        )
