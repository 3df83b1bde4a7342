"""What is said of a job elsewhere: how far it is, and what failed in it."""

from __future__ import annotations

import pytest

from pipeline.config import BuildConfig
from pipeline.places import from_the_root
from runners.errors import worker_error
from runners.job_display import describe_amounts

STEP = 'Traceback (most recent call last):\n  File "a.py", line 1\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            f"Pipeline job-1 failed in state FAILED: java.lang.RuntimeException: {STEP}a.B: no\n\n{STEP}"
            "ZeroDivisionError: a bug\nof two lines [while running 'Write/Block']\n\n\tat java.lang.X\n",
            "ZeroDivisionError: a bug of two lines (in Write/Block)",
        ),
        (f"{STEP}KeyError [while running 'A']", "KeyError (in A)"),
        (
            "Pipeline a_b failed in state FAILED: java.lang.X: died with code 1\n\tat java.Y(Z.java:1)\n",
            "java.lang.X: died with code 1",
        ),
        (f"{STEP}ValueError: outside of a step\n", "ValueError: outside of a step"),
        (
            # A runner that has asked for a bundle which had failed by then.
            f"{STEP}OSError: no [while running 'A']\n\nThe above exception was the direct cause of the "
            f"following exception:\n\n{STEP}RuntimeError: Bundle processing associated with inst006 has "
            "failed. Check prior failing response and attached exception for details.\n",
            "OSError: no (in A)",
        ),
        ("", None),
    ],
)
def test_what_failed_is_a_line(text, line):
    assert worker_error(text) == line


@pytest.mark.parametrize(
    ("amounts", "says"),
    [
        ({}, ""),
        ({"documents": 0, "blocks": 0}, ""),
        (
            {"documents": 1200, "text_bytes": 2_550_000},
            "1,200 documents read, 2.5 MB of text, 0 of 4 blocks written",
        ),
        (
            {"documents": 1, "rejects": 2, "blocks": 9},
            "1 documents read, 0.0 MB of text, 2 records refused, 4 of 4 blocks written",
        ),
    ],
)
def test_only_what_is_known_is_said(amounts, says):
    assert describe_amounts(amounts, blocks=4) == says


def test_local_paths_are_absolute_where_workers_are_elsewhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    paths = ("a/*.txt", "file:///b", "gs://c/d", "hf:name", "/e")
    config = BuildConfig(input=paths, vocab_file="v", output="out", temp_dir="t", runner="flink")
    found = from_the_root(config)
    assert found.input == (f"{tmp_path}/a/*.txt", "/b", "gs://c/d", "hf:name", "/e")
    assert (found.output, found.temp_dir) == (f"{tmp_path}/out", f"{tmp_path}/t")
    assert found.vocab_file == "v"  # for this process only
    local = BuildConfig(input=paths, vocab_file="v", output="out")
    assert from_the_root(local) is local
