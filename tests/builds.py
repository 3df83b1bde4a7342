"""Runs builds for tests: in this process, or as the command a user types."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from pipeline.config import BuildConfig
from pipeline.run import build
from schemas.manifest import Manifest, load_manifest

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"
VOCAB = DATA / "vocab.txt"


def build_here(*inputs: Path | str, output: Path | str, beam_args=(), **settings) -> Manifest:
    """Builds in this process, quietly."""
    values = {"vocab_file": str(VOCAB), "num_workers": 1} | settings
    config = BuildConfig.from_values(
        {"input": tuple(map(str, inputs)), "output": str(output)} | values
    )
    manifest = build(config, beam_args=beam_args, quiet=True)
    assert manifest is not None  # it was waited for
    return manifest


def run_command(*arguments: Path | str, env=None) -> subprocess.CompletedProcess[str]:
    """``bert-data ...`` in a process of its own: forked where that is possible, else of a new Python.

    Args:
      arguments: of the command line.
      env: variables to set before Python starts, which is a new one then; may be empty.
    """
    command = list(map(str, arguments))
    if env is None and sys.platform == "linux":
        from tests.end_to_end.commands import server_of

        done = server_of("bert-data").start(*command).wait()
        return subprocess.CompletedProcess(command, done.code, done.stdout, done.stderr)
    return subprocess.run(
        [sys.executable, "-m", "pipeline", *command],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def digests(directory: Path | str) -> dict[str, str]:
    """The sha256 of every shard, by path."""
    manifest = load_manifest(directory)
    return {shard.path: shard.sha256 for d in manifest.data_sets for shard in d.shards}


def documents_of(path: Path) -> list[list[str]]:
    """The documents of a file in BERT's text format, as lists of lines."""
    text = path.read_text(encoding="utf8")
    return [d.strip().split("\n") for d in text.split("\n\n") if d.strip()]


def write_text(path: Path, documents: list[list[str]]) -> Path:
    """BERT's text format."""
    path.write_text("\n\n".join("\n".join(d) for d in documents) + "\n", encoding="utf8")
    return path


def write_jsonl(path: Path, documents: list[list[str]]) -> Path:
    """The same documents as JSON lines, a sentence a line of the text."""
    lines = [json.dumps({"text": "\n".join(d)}, ensure_ascii=False) for d in documents]
    path.write_text("\n".join(lines) + "\n", encoding="utf8")
    return path
