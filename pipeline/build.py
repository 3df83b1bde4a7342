"""The graph: what happens to a corpus, from its files to the manifest.

Someone who reads only this file knows the project. Every element between two steps is an Arrow
record batch of megabytes, never a record; the comments say which (``schemas.arrow``).
"""

from __future__ import annotations

import dataclasses

import apache_beam as beam
import numpy as np

from pipeline.config import BuildConfig
from pipeline.manifest import WriteManifest
from schemas.arrow import id_dtype
from transforms.blocks import BlockLayout, GroupIntoBlocks
from transforms.documents import ReadDocuments
from transforms.examples import ExampleOptions, SpecialTokens
from transforms.formats.registry import versions_of_readers
from transforms.input_check import CheckInput, ReadTotals
from transforms.long_sentences import table_of_marks
from transforms.read_tasks import ReadTask
from transforms.reference_groups import FileGroup, ReadReferenceGroups
from transforms.reference_tokenizer import vocab_words
from transforms.rejects import WriteRejects
from transforms.sentences import SplitSentences
from transforms.shards import ShardSettings, WriteExamples
from transforms.tokenization import TokenizeSentences
from transforms.vocabulary import Vocabulary
from transforms.word_segments import WordMarker

__all__ = [
    "Job",
    "build_graph",
    "build_reference_graph",
    "read_sentences",
    "tokens_in_blocks",
]


@dataclasses.dataclass(frozen=True)
class Job:
    """A configuration with all that had to be looked up before it can run.

    Attributes:
      config: fully resolved; nothing in it is "auto" or None that matters to the rows.
      vocabulary: with the tokenizer inside, so that workers need no file of it.
      tasks: what to read, in pieces.
      layout: blocks and splits.
      fingerprint: of everything but the documents that decides the rows.
      groups: instead of tasks, for ``exact_reference``.
    """

    config: BuildConfig
    vocabulary: Vocabulary
    tasks: tuple[ReadTask, ...]
    layout: BlockLayout
    fingerprint: str
    groups: tuple[FileGroup, ...] = ()

    @property
    def word_marks(self) -> bool:
        """Whether the batches say which tokens continue a word; else the vocabulary's table does."""
        config = self.config
        if not config.do_whole_word_mask:
            return False
        return self.vocabulary.word_marks.marks_first or config.word_segmenter != "none"

    @property
    def text_readers(self) -> str | None:
        """The packages, with their versions, that decide what the text of the input is."""
        formats = {share.format for task in self.tasks for share in task.shares}
        return versions_of_readers(formats, encoding=self.config.encoding)

    @property
    def marks(self) -> np.ndarray | None:
        """Where long sentences are cut; None if they are not."""
        splits = self.config.split_long_sentences and self.config.objective != "mlm"
        return table_of_marks(self.vocabulary) if splits else None

    def word_marker(self) -> WordMarker | None:
        """What makes these marks in this process, if they are needed."""
        if not self.word_marks:
            return None
        return WordMarker.of(self.vocabulary, self.config.word_segmenter)

    @property
    def shards(self) -> ShardSettings:
        """What the step that writes needs to know."""
        config, vocabulary = self.config, self.vocabulary
        exact = config.exact_reference
        all_ids = vocab_words(vocabulary) if exact else np.arange(vocabulary.vocab_size)
        random_ids = vocabulary.regular_ids if config.random_tokens == "regular" else all_ids
        return ShardSettings(
            output=config.output,
            lengths=tuple(zip(config.max_seq_length, config.max_predictions_per_seq, strict=True)),
            options=ExampleOptions(
                **{
                    field.name: getattr(config, field.name)
                    for field in dataclasses.fields(ExampleOptions)
                }
            ),
            special=SpecialTokens(
                cls_id=vocabulary.cls_id,
                sep_id=vocabulary.sep_id,
                mask_id=vocabulary.mask_id,
                unk_id=vocabulary.unk_id,
                is_subword=vocabulary.is_subword,
                random_ids=random_ids.astype(id_dtype(vocabulary.vocab_size)),
                marks=np.zeros(0, np.uint8) if self.marks is None else self.marks,
            ),
            layout=self.layout,
            fingerprint=self.fingerprint,
            tokenizer_digest=vocabulary.digest,
            word_marks=self.word_marks,
            resume=config.resume,
            deduplicate=config.deduplicate,
            exact_reference=exact,
        )


def build_graph(pipeline: beam.Pipeline, job: Job, *, spill_dir: str | None) -> None:
    """Wires the whole build into ``pipeline``.

    Args:
      pipeline: an empty pipeline of any runner.
      job: what to build.
      spill_dir: a folder for the shuffle's files on this machine; None for the runner's shuffle.
    """
    config, vocabulary = job.config, job.vocabulary
    if config.exact_reference:
        build_reference_graph(pipeline, job)
        return

    # Documents: key, list of sentences. And the records refused, with their reasons.
    sentences, rejects, counts = read_sentences(pipeline, job)
    # {reason: count}; the records themselves are in rejects/ by now.
    rejects = rejects | "WriteRejects" >> WriteRejects(config.output)
    # One element: what was read and refused. A build that cannot come to a good end stops here.
    totals = beam.pvalue.AsSingleton(
        sentences
        | "CheckInput"
        >> CheckInput(
            rejects,
            counts,
            max_reject_fraction=config.max_reject_fraction,
            objective=config.objective,
        )
    )
    # (block, its token batches): the one shuffle. A document's text alone decides its block.
    blocks = tokens_in_blocks(sentences, job, spill_dir=spill_dir)
    # For each block: sort, pair, mask, shuffle, write one shard a length. What was written comes out.
    written = blocks | "WriteExamples" >> WriteExamples(job.shards, barrier=totals)
    # Last of all, or not at all.
    _ = written | "WriteManifest" >> WriteManifest(
        config=config,
        vocabulary=vocabulary,
        fingerprint=job.fingerprint,
        text_readers=job.text_readers,
        totals=totals,
    )


def read_sentences(pipeline: beam.Pipeline, job: Job) -> tuple[beam.PCollection, ...]:
    """The corpus as documents of sentences; what was refused of it; and what was counted in it."""
    config = job.config
    # A batch of about 8 MB: text, source, language; the records refused, with their reasons; and
    # {name: number} of documents left out, or with odd characters.
    documents, rejects, counts = pipeline | "ReadDocuments" >> ReadDocuments(
        job.tasks,
        text_field=config.text_field,
        id_field=config.id_field,
        language_field=config.language_field,
        document_separator=config.document_separator,
        max_document_bytes=config.max_document_bytes,
        min_document_chars=config.min_document_chars,
        strict=config.strict,
    )
    # The same documents: key, list of sentences.
    sentences = documents | "SplitSentences" >> SplitSentences(
        language=config.language, sentence_splitter=config.sentence_splitter
    )
    return sentences, rejects, counts


def tokens_in_blocks(
    sentences: beam.PCollection, job: Job, *, spill_dir: str | None
) -> beam.PCollection:
    """Documents of sentences as blocks of documents of token ids; ``spill_dir`` as above."""
    return (
        sentences
        # The same documents: key, lists of token ids. From here on there is no text.
        | "TokenizeSentences"
        >> TokenizeSentences(
            job.vocabulary, word_marks=job.word_marks, word_segmenter=job.config.word_segmenter
        )
        | "GroupIntoBlocks"
        >> GroupIntoBlocks(
            job.layout,
            vocab_size=job.vocabulary.vocab_size,
            word_marks=job.word_marks,
            spill_dir=spill_dir,
        )
    )


def build_reference_graph(pipeline: beam.Pipeline, job: Job) -> None:
    """The same for ``exact_reference``: file groups are blocks, each read from beginning to end.

    Args:
      pipeline: an empty pipeline of any runner.
      job: what to build.
    """
    # Nothing is refused: what the script cannot read ends the build.
    totals = beam.pvalue.AsSingleton(pipeline | "NoRejects" >> beam.Create([ReadTotals()]))
    # (block, its token batches), the documents in the order of the files; then as above.
    blocks = pipeline | "ReadReferenceGroups" >> ReadReferenceGroups(job.groups, job.vocabulary)
    written = blocks | "WriteExamples" >> WriteExamples(job.shards)
    _ = written | "WriteManifest" >> WriteManifest(
        config=job.config,
        vocabulary=job.vocabulary,
        fingerprint=job.fingerprint,
        text_readers=job.text_readers,
        totals=totals,
    )
