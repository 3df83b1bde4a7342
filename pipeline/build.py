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
from transforms.input_check import CheckInput
from transforms.inputs import ReadTask
from transforms.rejects import WriteRejects
from transforms.sentences import SplitSentences
from transforms.shards import ShardSettings, WriteExamples
from transforms.tokenization import TokenizeSentences
from transforms.vocabulary import Vocabulary

__all__ = ["Job", "build_graph"]


@dataclasses.dataclass(frozen=True)
class Job:
    """A configuration with all that had to be looked up before it can run.

    Attributes:
      config: fully resolved; nothing in it is "auto" or None that matters to the rows.
      vocabulary: with the tokenizer inside, so that workers need no file of it.
      tasks: what to read, in pieces.
      layout: blocks and splits.
      fingerprint: of everything but the documents that decides the rows.
    """

    config: BuildConfig
    vocabulary: Vocabulary
    tasks: tuple[ReadTask, ...]
    layout: BlockLayout
    fingerprint: str

    @property
    def shards(self) -> ShardSettings:
        """What the step that writes needs to know."""
        config, vocabulary = self.config, self.vocabulary
        all_ids = np.arange(vocabulary.vocab_size)
        random_ids = vocabulary.regular_ids if config.random_tokens == "regular" else all_ids
        return ShardSettings(
            output=config.output,
            lengths=tuple(zip(config.max_seq_length, config.max_predictions_per_seq, strict=True)),
            options=ExampleOptions(
                masked_lm_prob=config.masked_lm_prob,
                short_seq_prob=config.short_seq_prob,
                dupe_factor=config.dupe_factor,
                random_seed=config.random_seed,
                do_whole_word_mask=config.do_whole_word_mask,
                provenance=config.provenance,
            ),
            special=SpecialTokens(
                cls_id=vocabulary.cls_id,
                sep_id=vocabulary.sep_id,
                mask_id=vocabulary.mask_id,
                unk_id=vocabulary.unk_id,
                is_subword=vocabulary.is_subword,
                random_ids=random_ids.astype(id_dtype(vocabulary.vocab_size)),
            ),
            layout=self.layout,
            fingerprint=self.fingerprint,
            tokenizer_digest=vocabulary.digest,
            resume=config.resume,
        )


def build_graph(pipeline: beam.Pipeline, job: Job, *, spill_dir: str | None) -> None:
    """Wires the whole build into ``pipeline``.

    Args:
      pipeline: an empty pipeline of any runner.
      job: what to build.
      spill_dir: a folder for the shuffle's files on this machine; None for the runner's shuffle.
    """
    config, vocabulary = job.config, job.vocabulary

    # A batch of about 8 MB: text, source, language; and the records refused, with their reasons.
    documents, rejects = pipeline | "ReadDocuments" >> ReadDocuments(
        job.tasks,
        text_field=config.text_field,
        id_field=config.id_field,
        language_field=config.language_field,
        document_separator=config.document_separator,
        max_document_bytes=config.max_document_bytes,
    )
    # {reason: count}; the records themselves are in rejects/ by now.
    rejects = rejects | "WriteRejects" >> WriteRejects(config.output)
    # The same documents: key, list of sentences.
    sentences = documents | "SplitSentences" >> SplitSentences(
        language=config.language, sentence_splitter=config.sentence_splitter
    )
    # One element: what was read and refused. A build that cannot come to a good end stops here.
    totals = beam.pvalue.AsSingleton(
        sentences
        | "CheckInput"
        >> CheckInput(
            rejects,
            max_reject_fraction=config.max_reject_fraction,
            objective=config.objective,
        )
    )
    blocks = (
        sentences
        # The same documents: key, lists of token ids. From here on there is no text.
        | "TokenizeSentences" >> TokenizeSentences(vocabulary)
        # (block, its token batches): the one shuffle. A document's text alone decides its block.
        | "GroupIntoBlocks"
        >> GroupIntoBlocks(job.layout, vocab_size=vocabulary.vocab_size, spill_dir=spill_dir)
    )
    # For each block: sort, pair, mask, shuffle, write one shard a length. What was written comes out.
    written = blocks | "WriteExamples" >> WriteExamples(job.shards, barrier=totals)
    # Last of all, or not at all.
    _ = written | "WriteManifest" >> WriteManifest(
        config=config,
        vocabulary=vocabulary,
        fingerprint=job.fingerprint,
        totals=totals,
    )
