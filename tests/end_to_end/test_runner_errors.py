"""Whatever goes wrong is one line and an exit code, in this process or on a worker."""

from __future__ import annotations

import traceback
from types import SimpleNamespace

import pytest
from apache_beam.runners.worker.sdk_worker import BundleProcessorCache

from runners.errors import translated
from schemas.errors import BuildError, MissingColumnError, SingleDocumentError, TooManyRejectsError
from tests.builds import DATA, VOCAB, run_command
from tests.end_to_end.commands import error_line, files_of

CORPUS = DATA / "sentences.txt"

#: Python to run before the command, its exit code, what it says.
FAILURES = {
    "a full disk, for shards": (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, -1))",
        1,
        "File too large (in WriteExamples/WriteBlock); mend that and go on with --resume",
    ),
    "a full disk, for spilled files": (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, -1))",
        1,
        "File too large (in GroupIntoBlocks/SplitByBlock); mend that and go on with --resume",
    ),
    "an input that vanishes": (
        "import pipeline.run as run, pathlib; before = run.prepare\n"
        "def prepare(config, **keywords):\n"
        "    prepared = before(config, **keywords)\n"
        "    pathlib.Path(config.input[0]).unlink()\n"
        "    return prepared\n"
        "run.prepare = prepare",
        1,
        "No such file or directory: '{corpus}' (in ReadDocuments/ReadTasks/ParDo(_ReadTasks)); mend "
        "that and go on with --resume",
    ),
    "spilled files that vanish": (
        "import pathlib, transforms.blocks as blocks; before = blocks.spill\n"
        "def spill(batches, layout, directory):\n"
        "    ranges = before(batches, layout, directory)\n"
        "    [path.unlink() for path in pathlib.Path(directory).iterdir()]\n"
        "    return ranges\n"
        "blocks.spill = spill",
        1,
        "the spill file is gone; leave the temp folder alone while a build runs",
    ),
    "a bug": (
        "import transforms.shards as shards\n"
        "def write_block(*arguments, **keywords):\n"
        "    raise ZeroDivisionError('a bug\\nof two lines')\n"
        "shards.write_block = write_block",
        1,
        "of two lines [while running 'WriteExamples/WriteBlock'] (--debug shows where)",
    ),
}


@pytest.mark.parametrize(
    ("failure", "workers"),
    [*((failure, 2) for failure in FAILURES), ("a full disk, for shards", 1), ("a bug", 1)],
)
def test_what_goes_wrong_during_a_run_is_one_line(commands, tmp_path, failure, workers):
    before, code, says = FAILURES[failure]
    corpus = tmp_path / "a.txt"
    corpus.write_bytes(CORPUS.read_bytes())
    flags = [f"--num_workers={workers}", "--num_shards=1"]
    done = commands.build(corpus, tmp_path / "out", *flags, before=before).wait()
    assert done.code == code
    assert error_line(done).endswith(says.format(corpus=corpus))
    assert not files_of(tmp_path / "out")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_package_that_the_language_of_a_record_needs_is_named(commands, tmp_path, workers):
    pytest.importorskip("choppa")
    corpus = tmp_path / "a.jsonl"
    corpus.write_text('{"text": "One. Two.", "lang": "en"}\n{"text": "a b", "lang": "th"}\n' * 9)
    before = (
        "import importlib.util; find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: (\n"
        "    None if name in ('pycrfsuite', 'pythainlp') else find(name, *rest))"
    )
    flags = ["--sentence_splitter=best", f"--num_workers={workers}"]
    done = commands.build(corpus, tmp_path / "out", *flags, before=before).wait()
    assert done.code == 2
    assert error_line(done) == (
        "--sentence_splitter='best': needs a package that is not installed: "
        'pip install "bert-data[thai]"'
    )
    assert not files_of(tmp_path / "out")


@pytest.mark.parametrize("workers", [1, 2])
def test_debug_shows_the_traceback_of_the_step_once(commands, tmp_path, workers):
    before, code, says = FAILURES["a bug"]
    flags = [f"--num_workers={workers}", "--debug"]
    done = commands.build(CORPUS, tmp_path / "out", *flags, before=before).wait()
    assert done.code == code
    lines = done.stderr.splitlines()
    assert lines[0].startswith("Traceback (most recent call last):")
    assert lines[-1].startswith("bert-data: error: ")
    assert lines[-1].endswith(says)
    assert "in write_block" in done.stderr or "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--output={file}"], "--output='{file}': is a file; give a directory"),
        (["--output={file}/x"], "--output='{file}/x': cannot be made: Not a directory"),
        (["--output=/proc/x"], "--output='/proc/x': cannot be made: No such file or directory"),
        (["--temp_dir={file}"], "--temp_dir='{file}': cannot be made: File exists"),
        (["--vocab_file={file}"], "--vocab_file='{file}': "),
        (["--vocab_file={file}.txt"], "--vocab_file='{file}.txt': cannot be read: "),
        (["--num_workers=0"], "--num_workers=0: must be a whole number, at least 1"),
        (["{file}.missing"], "--input='{file}.missing': matches no file; "),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_is_wrong_before_a_run_is_one_line_and_leaves_nothing(commands, tmp_path, flags, says):
    file = tmp_path / "file"
    file.write_text("mine")
    flags = [flag.format(file=file) for flag in flags]
    done = commands.build(CORPUS, tmp_path / "out", *flags).wait()
    assert done.code == 2
    assert error_line(done).startswith(says.format(file=file))
    assert files_of(tmp_path) == {"file"}
    assert file.read_text() == "mine"


def test_the_command_of_a_shell_fails_as_well(tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"\xff\n\nOne.\nTwo.\n\nThree.\n")
    flags = ["--vocab_file", VOCAB, "--output", tmp_path / "out", "--num_workers=2"]
    done = run_command("build", tmp_path / "bad.txt", *flags, env={})
    assert done.returncode == 3
    assert done.stderr.startswith("bert-data: error: 1 of 3 records were refused (1 undecodable), ")
    assert done.stderr.count("\n") == 1


# What runners say, and what is made of it.

WORKERS = """Traceback (most recent call last):
  File "common.py", line 1, in process
  File "step.py", line 2, in step
    raise {error}
{error}

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "sdk_worker.py", line 3, in _execute
{error} [while running 'Some/Step']
"""


def asked_afterwards(reason: str) -> str:
    """What a worker answers that is asked about a bundle which has failed."""
    bundles = BundleProcessorCache(frozenset(), None, SimpleNamespace(cleanup=str), {})
    bundles.discard("inst006", RuntimeError(reason))
    try:
        bundles.lookup("inst006")
    except RuntimeError:
        return traceback.format_exc()
    raise AssertionError


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        (
            "schemas.errors.TooManyRejectsError: 3 of 4: too many",
            TooManyRejectsError,
            "3 of 4: too many",
        ),
        (
            "schemas.errors.SingleDocumentError: is one document",
            SingleDocumentError,
            "is one document",
        ),
        (
            "schemas.errors.MissingColumnError: a.parquet has no column 'text'",
            MissingColumnError,
            "a.parquet has no column 'text'",
        ),
        ("schemas.errors.BuildError: it's over", BuildError, "it's over"),
        (
            "OSError: [Errno 28] No space left on device: '/a/b'",
            BuildError,
            "No space left on device: '/a/b' (in Some/Step); mend that and go on with --resume",
        ),
        (
            "RuntimeError: FileNotFoundError: [Errno 2] No such file or directory: '/a'",
            BuildError,
            "No such file or directory: '/a' (in Some/Step); mend that and go on with --resume",
        ),
    ],
)
def test_errors_of_workers_are_ours_again(text, kind, says):
    in_a_step = f"{text} [while running 'Some/Step']"
    for said in (in_a_step, WORKERS.format(error=text), asked_afterwards(in_a_step)):
        with pytest.raises(BuildError) as caught, translated():
            raise RuntimeError(said)
        assert type(caught.value) is kind
        assert str(caught.value) == says


def test_our_own_errors_lose_the_name_of_the_step():
    with pytest.raises(SingleDocumentError, match=r"^one document$"), translated():
        raise SingleDocumentError("one document [while running 'WriteManifest/Write']")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(""),
        RuntimeError("BuildErrors: are not ours"),
        RuntimeError(WORKERS.format(error="ValueError: [Errno 5 is mentioned")),
        ValueError("BuildError: of another class"),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
def test_other_errors_are_left_alone(error):
    with pytest.raises(type(error)) as caught, translated():
        raise error
    assert caught.value is error
