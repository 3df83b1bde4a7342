"""The same bytes on every portable runner, and its errors in one line."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.manifest import load_manifest
from tests.builds import DATA, VOCAB, build_here, digests
from tests.clusters.job_servers import RUNNERS
from tests.end_to_end.commands import error_line, files_of

pytestmark = [pytest.mark.runners, pytest.mark.timeout(900)]

#: Several shards, held-out documents, two lengths.
SETTINGS = {"num_shards": 3, "validation_fraction": 0.2, "max_seq_length": (64, 128)}
FLAGS = ["--num_shards=3", "--validation_fraction=0.2", "--max_seq_length=64,128"]
CORPORA = [DATA / "documents.jsonl", DATA / "sentences.txt"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What the local runner makes, by the corpus."""
    found = {}
    for corpus in CORPORA:
        output = tmp_path_factory.mktemp("local") / "data"
        build_here(corpus, output=output, **SETTINGS)
        found[corpus] = output
    return found


@pytest.mark.parametrize("corpus", CORPORA, ids=lambda path: path.name)
@pytest.mark.parametrize("runner", RUNNERS)
def test_the_same_bytes_as_on_this_machine(commands, job_flags, expected, tmp_path, runner, corpus):
    done = commands.build(corpus, tmp_path / "out", *FLAGS, *job_flags(runner)).wait(600)
    assert done.code == 0, done.stderr
    assert digests(tmp_path / "out") == digests(expected[corpus])
    assert load_manifest(tmp_path / "out").counts == load_manifest(expected[corpus]).counts
    assert "examples in " in done.stdout
    unexpected = [line for line in done.stderr.splitlines() if " s: " not in line]
    assert not unexpected


@pytest.mark.parametrize("shuffle", ["files", "runner"])
@pytest.mark.parametrize("runner", ["local", "prism", "flink"])
def test_what_brings_the_documents_together_changes_nothing(
    commands, job_flags, expected, tmp_path, runner, shuffle
):
    flags = [] if runner == "local" else job_flags(runner)
    flags = [*FLAGS, f"--shuffle={shuffle}", *flags]
    done = commands.build(CORPORA[1], tmp_path / "out", *flags).wait(600)
    assert done.code == 0, done.stderr
    assert digests(tmp_path / "out") == digests(expected[CORPORA[1]])
    assert not list((tmp_path / "out").glob(".spill-*"))


@pytest.mark.parametrize("runner", RUNNERS)
def test_the_exact_reference_is_the_same_everywhere(commands, job_flags, tmp_path, runner):
    build_here(CORPORA[1], output=tmp_path / "local", exact_reference=True, dupe_factor=2)
    flags = ["--exact_reference", "--dupe_factor=2", *job_flags(runner)]
    done = commands.build(CORPORA[1], tmp_path / "out", *flags).wait(600)
    assert done.code == 0, done.stderr
    assert digests(tmp_path / "out") == digests(tmp_path / "local")


ENCYCLOPEDIA = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"


@pytest.fixture(scope="module")
def in_three_languages(shared, tmp_path_factory):
    """Files of articles and of an encyclopedia, 5 MB, and what one process makes of them."""
    names = ["handbook.de-DE.jsonl", "handbook.ru-RU.jsonl", ENCYCLOPEDIA]
    corpus = [shared / "data" / "corpora" / name for name in names]
    output = tmp_path_factory.mktemp("languages") / "data"
    build_here(*corpus, output=output, num_shards=4, dupe_factor=1)
    return corpus, digests(output)


@pytest.mark.parametrize("runner", ["local", *RUNNERS])
def test_text_in_three_languages_has_the_same_shards(
    commands, job_flags, in_three_languages, tmp_path, runner
):
    corpus, expected = in_three_languages
    where = ["--num_workers=2"] if runner == "local" else job_flags(runner)
    flags = [
        "--vocab_file",
        VOCAB,
        "--output",
        tmp_path / "out",
        "--num_shards=4",
        "--dupe_factor=1",
    ]
    done = commands.start("build", *corpus, *flags, *where).wait(800)
    assert done.code == 0, done.stderr
    assert digests(tmp_path / "out") == expected


#: Python to run before the command, its flags, its exit code, how its line begins or ends.
FAILURES = {
    "too many rejects": (
        "",
        "{bad}",
        [],
        3,
        "1 of 3 records were refused (1 undecodable), more than ",
    ),
    "strict": ("", "{bad}", ["--strict"], 3, "--strict: {bad}@0: undecodable: not UTF-8"),
    "one document": (
        "",
        "{single}",
        [],
        2,
        "the corpus is one document, and --objective=nsp needs",
    ),
    "no such column": ("", "{table}", [], 2, "{table} has no column 'text'; there is 'body'; say "),
    "an input that vanishes": (
        "import pipeline.run as run, pathlib; before = run.prepare\n"
        "def prepare(config, **keywords):\n"
        "    prepared = before(config, **keywords)\n"
        "    pathlib.Path(config.input[0]).unlink()\n"
        "    return prepared\n"
        "run.prepare = prepare",
        "{good}",
        [],
        1,
        "No such file or directory: '{good}' (in ReadDocuments/ReadTasks/ParDo(_ReadTasks)); mend "
        "that and go on with --resume",
    ),
    "an output through a file": (
        "import transforms.shards as shards; before = shards.write_block\n"
        "def write_block(*arguments, **keywords):\n"
        "    open('{single}/x', 'w')\n"
        "shards.write_block = write_block",
        "{good}",
        [],
        1,
        "Not a directory: '{single}/x' (in WriteExamples/WriteBlock); mend that and go on with --resume",
    ),
    "an error of the build": (
        "import transforms.shards as shards, schemas.errors as errors\n"
        "def write_block(*arguments, **keywords):\n"
        '    raise errors.BuildError("it\'s over: go home")\n'
        "shards.write_block = write_block",
        "{good}",
        [],
        1,
        "it's over: go home",
    ),
    "a bug": (
        "import transforms.shards as shards\n"
        "def write_block(*arguments, **keywords):\n"
        "    raise ZeroDivisionError('a bug\\nof two lines')\n"
        "shards.write_block = write_block",
        "{good}",
        [],
        1,
        "ZeroDivisionError: a bug of two lines (in WriteExamples/WriteBlock); --debug shows where",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("runner", RUNNERS)
def test_what_a_worker_raises_is_one_line(commands, job_flags, tmp_path, runner, failure):
    before, corpus, flags, code, says = FAILURES[failure]
    names = {name: str(tmp_path / name) for name in ("bad", "single", "table", "good")}
    names["table"] += ".parquet"
    (tmp_path / "bad").write_bytes(b"\xff\n\nOne.\nTwo.\n\nThree.\n")
    (tmp_path / "single").write_text("One.\nTwo.\n")
    (tmp_path / "good").write_bytes((DATA / "sentences.txt").read_bytes())
    pq.write_table(pa.table({"body": ["a b", "c d"]}), names["table"])
    text = [] if failure == "no such column" else ["--format=text"]
    for name, path in names.items():
        before = before.replace(f"{{{name}}}", path)
    corpus, says = corpus.format(**names), says.format(**names)
    flags = [*text, "--num_shards=2", *flags, *job_flags(runner)]
    done = commands.build(corpus, tmp_path / "out", *flags, before=before).wait(600)
    done.stderr = "".join(f"{s}\n" for s in done.stderr.splitlines() if " s: " not in s)
    assert done.code == code
    assert error_line(done).startswith(says)
    assert "manifest.json" not in files_of(tmp_path / "out")


@pytest.mark.parametrize("runner", RUNNERS)
def test_debug_keeps_everything(commands, job_flags, tmp_path, runner):
    before = FAILURES["a bug"][0]
    flags = ["--debug", "--num_shards=2", *job_flags(runner)]
    done = commands.build(DATA / "sentences.txt", tmp_path / "out", *flags, before=before).wait(600)
    assert done.code == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "in write_block" in done.stderr
    assert "Job state changed to FAILED" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("bert-data: error: ZeroDivisionError: a bug ")
