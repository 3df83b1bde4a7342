"""The command line: flags, what is passed on to Beam, what is refused, exit codes, speed."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import COMMANDS, main
from pipeline.config import BuildConfig
from pipeline.flags import UsageError, build_parser, parse_build
from pipeline.settings import Switch
from schemas.errors import (
    BuildError,
    ConfigError,
    MissingColumnError,
    SingleDocumentError,
    TooManyRejectsError,
)

NEEDED = ["--input", "a.txt", "--vocab_file", "vocab.txt", "--output", "out"]
ROOT = Path(__file__).resolve().parents[2]
FIELDS = {field.name: field for field in dataclasses.fields(BuildConfig)}
SWITCHES = [n for n, f in FIELDS.items() if isinstance(f.metadata["setting"].kind, Switch)]

#: A flag's text, and the value it must give.
VALUES: dict[str, tuple[str, Any]] = {
    "input": ("b.txt,c*.txt", ("b.txt", "c*.txt")),
    "vocab_file": ("tokenizer.json", "tokenizer.json"),
    "output": ("gs://bucket/x", "gs://bucket/x"),
    "format": ("jsonl", "jsonl"),
    "text_field": ("body", "body"),
    "id_field": ("key", "key"),
    "language_field": ("l", "l"),
    "split": ("train", "train"),
    "document_separator": ("---", "---"),
    "max_document_bytes": ("1000", 1000),
    "min_document_chars": ("20", 20),
    "encoding": ("latin-1", "latin-1"),
    "language": ("de", "de"),
    "sentence_splitter": ("none", "none"),
    "max_seq_length": ("64", (64,)),
    "short_seq_prob": ("0", 0.0),
    "dupe_factor": ("10", 10),
    "random_seed": ("0", 0),
    "reference_groups": ("file", "file"),
    "objective": ("mlm", "mlm"),
    "dupe_mode": ("remask", "remask"),
    "not_next_share": ("0.25", 0.25),
    "single_segment": ("drop", "drop"),
    "mlm_packing": ("document", "document"),
    "max_ngram_size": ("3", 3),
    "mask_per": ("word", "word"),
    "mask_token_share": ("0.7", 0.7),
    "random_token_share": ("0.2", 0.2),
    "kept_token_share": ("0", 0.0),
    "layout": ("shared", "shared"),
    "validation_fraction": ("0.01", 0.01),
    "masking": ("none", "none"),
    "masked_lm_prob": ("1e-2", 0.01),
    "max_predictions_per_seq": ("19", (19,)),
    "random_tokens": ("all", "all"),
    "word_segmenter": ("jieba", "jieba"),
    "num_shards": ("4", 4),
    "num_workers": ("3", 3),
    "max_reject_fraction": ("1", 1.0),
    "temp_dir": ("t", "t"),
    "runner": ("FlinkRunner", "FlinkRunner"),
    "shuffle": ("runner", "runner"),
}

#: Flags that have to go with one.
WITH = {
    "document_separator": ["--format=prose"],
    "layout": ["--dupe_mode=remask"],
    "reference_groups": ["--exact_reference"],
    "mask_token_share": ["--random_token_share=0.2"],
    "random_token_share": ["--mask_token_share=0.7"],
    "kept_token_share": ["--random_token_share=0.2"],
}


def parse(*flags: str) -> BuildConfig:
    config, beam_args = parse_build([*NEEDED, *flags])
    assert beam_args == []
    return config


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("hyphens", [False, True])
@pytest.mark.parametrize("equals", [False, True])
def test_every_flag_has_its_effect_in_every_spelling(name, hyphens, equals):
    text, value = VALUES[name]
    flag = "--" + (name.replace("_", "-") if hyphens else name)
    if name == "document_separator" and not equals:
        return  # a value that starts with a dash needs the equals sign, as its help says
    flags = [f"{flag}={text}"] if equals else [flag, text]
    flags += WITH.get(name, [])
    given = [] if name == "input" else ["--input", "a.txt"]
    config, _ = parse_build([*given, "--vocab_file", "vocab.txt", "--output", "out", *flags])
    assert getattr(config, name) == value


def test_the_tables_of_this_test_are_complete():
    assert set(VALUES) | set(SWITCHES) == set(FIELDS)


@pytest.mark.parametrize("name", SWITCHES)
def test_switches_go_both_ways(name):
    hyphens = name.replace("_", "-")
    on = [f"--{name}", f"--{hyphens}", f"--{name}=True", f"--{hyphens}=true", f"--{name}=1"]
    off = [f"--no-{name}", f"--no-{hyphens}", f"--no_{name}", f"--{name}=False", f"--{name}=0"]
    for flag in on:
        assert getattr(parse(flag), name) is True, flag
    for flag in off:
        assert getattr(parse(flag), name) is False, flag
    with pytest.raises(ConfigError, match=f"--{name}='maybe': must be true or false"):
        parse(f"--{name}=maybe")


def test_defaults_are_those_of_the_dataclass():
    assert parse() == BuildConfig(input=("a.txt",), vocab_file="vocab.txt", output="out")


def test_several_values():
    config = parse("--max_seq_length", "128, 512", "--max_predictions_per_seq=20,76")
    assert config.max_seq_length == (128, 512)
    assert config.max_predictions_per_seq == (20, 76)
    rest = ["--vocab_file", "v", "--output", "o"]
    config, _ = parse_build(["--input", "a", "b,c", "--dupe_factor", "1", "--input=d", *rest])
    assert config.input == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--dupe_factor=zero", "--dupe_factor='zero': must be a whole number from 1 to 65535"),
        ("--dupe_factor=1.5", "--dupe_factor='1.5': must be"),
        ("--masked_lm_prob=nan", "--masked_lm_prob=nan: must be a number between 0 and 1"),
        ("--max_seq_length=128,", "--max_seq_length='': must be"),
        ("--max_seq_length=128,4", "--max_seq_length=4: must be"),
        ("--format=csv", "--format='csv': must be one of auto, text, prose, jsonl"),
        ("--runner=-", "--runner='-': must be local or the name of a runner"),
        ("--input=", "--input='': must be"),
    ],
)
def test_a_bad_value_names_flag_value_and_what_is_allowed(capsys, flag, text):
    assert main(["build", *NEEDED, flag]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"bert-data: error: {text}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_what_is_missing_is_named(capsys):
    assert main(["build", "--vocab_file", "v"]) == 2
    assert (
        "must be given: INPUT (a path, glob, folder or URL), --output;" in capsys.readouterr().err
    )
    for command in ("check", "show"):
        assert main([command]) == 2
        said = f"bert-data: error: must be given: DIR; bert-data {command} --help says more\n"
        assert capsys.readouterr().err == said
    assert main(["build", *NEEDED, "--dupe_factor"]) == 2
    assert "--dupe_factor: expected one argument" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["a.txt", "b,c.txt", *NEEDED[2:]],
        [*NEEDED[2:], "a.txt", "b,c.txt"],
        ["a.txt", *NEEDED[2:], "--direct_num_workers", "2", "b,c.txt"],
        ["--no_direct_runner_use_stacked_bundle", "a.txt", "b,c.txt", *NEEDED[2:]],
        ["a.txt", *NEEDED[2:], "b,c.txt", "--overwrite"],
    ],
)
def test_inputs_may_stand_anywhere(arguments):
    config, beam_args = parse_build(arguments)
    assert config.input == ("a.txt", "b,c.txt")
    assert not {"a.txt", "b,c.txt"} & set(beam_args)
    assert (beam_args == ["--direct_num_workers", "2"]) == ("2" in arguments)


def test_input_is_a_flag_too():
    config, _ = parse_build(["a.txt", *NEEDED[2:], "--input", "b.txt,c.txt", "d.txt"])
    assert config.input == ("a.txt", "b.txt", "c.txt", "d.txt")


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--dupe_facter", "3"], "no such flag: --dupe_facter; did you mean --dupe_factor?"),
        (["--dupe_fac", "3"], "no such flag: --dupe_fac; did you mean --dupe_factor?"),
        (["--input_file=x"], "no such flag: --input_file=x; did you mean --input?"),
        (["--max-seq-len", "3"], "no such flag: --max-seq-len; did you mean --max_seq_length?"),
        (["--direct_num_worker", "3"], "did you mean --direct_num_workers?"),
        (["--frobnicate"], "no such flag: --frobnicate; bert-data build --help"),
        (["-x"], "no such flag: -x;"),
        (["--direct_num_workers=four"], "--direct_num_workers: invalid int value: 'four'"),
        (["--streaming"], "--streaming=True: a build is a batch job"),
        (["--save_main_session"], "--save_main_session=True: nothing of the main session"),
    ],
)
def test_unknown_flags_are_refused_with_a_suggestion(capsys, flags, text):
    assert main(["build", *NEEDED, *flags]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("bert-data: error: ")
    assert text in captured.err
    assert captured.err.count("\n") == 1


def test_flags_of_beam_are_passed_on():
    flags = [
        *["--direct_running_mode=multi_processing", "--direct_num_workers", "4"],
        *["--direct_runner_bundle_repeat=1"],
    ]
    config, beam_args = parse_build([*flags[:2], *NEEDED, *flags[2:], "--dupe_factor", "2"])
    assert beam_args == flags
    assert config.dupe_factor == 2


def test_flags_with_a_name_of_beams_are_ours():
    config, beam_args = parse_build([*NEEDED, "--runner", "local", "--num_workers", "3"])
    assert (config.num_workers, beam_args) == (3, [])


def test_a_configuration_file_is_read_and_flags_win(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(parse("--dupe_factor", "2", "--language", "de", "--resume").to_json())
    config, _ = parse_build(["--config", str(path)])
    assert (config.dupe_factor, config.language, config.input) == (2, "de", ("a.txt",))
    config, _ = parse_build(
        ["--config", str(path), "--dupe_factor", "3", "--no-resume", "--input", "b", "c"]
    )
    assert (config.dupe_factor, config.language, config.resume) == (3, "de", False)
    assert config.input == ("b", "c")


def test_predictions_that_a_file_had_worked_out_follow_the_flags(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(parse().to_json())
    config, _ = parse_build(["--config", str(path), "--max_seq_length", "128,512"])
    assert config.max_predictions_per_seq == (20, 76)
    path.write_text(parse("--max_predictions_per_seq", "15").to_json())
    config, _ = parse_build(["--config", str(path), "--max_seq_length", "256"])
    assert config.max_predictions_per_seq == (15,)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "No such file"),
        ("{", "is not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"dupe_facter": 1}', "--dupe_facter=1: no such setting; did you mean dupe_factor?"),
        ('{"max_seq_length": 7}', "--max_seq_length=7: must be"),
        ('{"max_seq_length": ["x"]}', "--max_seq_length='x': must be"),
        ('{"input": "a.txt"}', "--input='a.txt': must be"),
    ],
)
def test_a_bad_configuration_file_is_a_usage_error(tmp_path, capsys, content, text):
    path = tmp_path / "config.json"
    if content is not None:
        path.write_text(content)
    flags = NEEDED[2:] if "input" in (content or "") else NEEDED
    assert main(["build", "--config", str(path), *flags, "--masked_lm_prob", ".2"]) == 2
    assert text in capsys.readouterr().err


@pytest.fixture
def fake_commands(monkeypatch):
    """``pipeline.run`` and ``pipeline.plan`` that do what the test says and note their calls."""
    calls: list[Any] = []
    answer: dict[str, Any] = {"result": None}

    def run(config, *, beam_args):
        calls.append((config, beam_args))
        if isinstance(answer["result"], BaseException):
            raise answer["result"]
        return answer["result"]

    for name, function in (("run", "build"), ("plan", "plan")):
        module = types.ModuleType(f"pipeline.{name}")
        setattr(module, function, run)
        monkeypatch.setitem(sys.modules, f"pipeline.{name}", module)
    return calls, answer


@pytest.mark.parametrize(
    ("result", "code", "text"),
    [
        (None, 0, ""),
        (0, 0, ""),
        (1, 1, ""),
        (object(), 0, ""),
        (True, 0, ""),
        (ConfigError("output", "out", "is not empty"), 2, "--output='out': is not empty"),
        (TooManyRejectsError("5 of 9 refused"), 3, "5 of 9 refused"),
        (SingleDocumentError("the corpus is one document"), 2, "the corpus is one document"),
        (MissingColumnError("has no column 'text'"), 2, "has no column 'text'"),
        (BuildError("no\n documents"), 1, "no documents"),
        (OSError(28, "No space left on device"), 1, "OSError: [Errno 28] No space left on device"),
        (BrokenPipeError(32, "Broken pipe"), 1, "BrokenPipeError: "),
        (KeyboardInterrupt(), 130, "interrupted; nothing half-written was left; run again with"),
        (
            RuntimeError("Traceback (most recent call last):\n  File x\nValueError: bad [while X]"),
            1,
            "RuntimeError: ValueError: bad [while X] (--debug shows where)",
        ),
        (RuntimeError("x " * 5000), 1, "RuntimeError: x x "),
    ],
)
def test_exit_codes(fake_commands, capsys, result, code, text):
    calls, answer = fake_commands
    answer["result"] = result
    assert main(["build", *NEEDED]) == code
    captured = capsys.readouterr()
    assert len(calls) == 1
    if text:
        assert captured.err.startswith(f"bert-data: error: {text}")
        assert captured.err.count("\n") == 1
        assert len(captured.err) < 700
    else:
        assert captured.err == ""


def test_debug_anywhere_shows_the_traceback(fake_commands, capsys):
    _, answer = fake_commands
    for argv in (["--debug", "build", *NEEDED], ["build", "--debug", *NEEDED]):
        answer["result"] = OSError("disk on fire")
        assert main(argv) == 1
        err = capsys.readouterr().err
        assert "Traceback (most recent call last)" in err
        assert err.splitlines()[-1].startswith("bert-data: error: OSError: disk on fire")


def test_build_and_plan_get_the_configuration(fake_commands):
    calls, _ = fake_commands
    assert main(["build", *NEEDED, "--dupe_factor", "3", "--direct_num_workers=2"]) == 0
    assert main(["plan", *NEEDED[:4]]) == 0
    (built, beam_args), (planned, no_args) = calls
    assert (built.dupe_factor, built.output, beam_args) == (3, "out", ["--direct_num_workers=2"])
    assert (planned.input, planned.output, no_args) == (("a.txt",), os.devnull, [])
    assert main(["build", *NEEDED[:4]]) == 2


def test_warnings_are_printed_and_do_not_fail(fake_commands, capsys):
    assert main(["build", *NEEDED, "--max_predictions_per_seq", "5"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("bert-data: warning: --max_predictions_per_seq=5 is far from")


def test_help_version_and_unknown_commands(capsys):
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: bert-data COMMAND" in captured.err
    assert main(["--help"]) == main(["-h"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in COMMANDS)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("bert-data ")
    assert main(["biuld"]) == 2
    assert "no such command: biuld; did you mean build?" in capsys.readouterr().err
    assert main(["frobnicate"]) == 2
    assert "there are build, plan, documents, show" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["build", "plan"])
def test_help_names_every_flag_its_default_and_berts(command, capsys):
    assert main([command, "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for name in FIELDS:
        assert f"--{name}" in out
    assert "default: 5; BERT's default is 10" in out
    assert "a number between 0 and 1, both excluded; default: 0.15" in out
    assert "BERT's default is 20 for every length" in out


def test_abbreviations_are_off():
    with pytest.raises(UsageError):
        build_parser().parse_args([*NEEDED, "--dupe", "3"])


def run_python(code: str) -> str:
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return found.stdout


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["--help"], 0),
        (["build", "--help"], 0),
        (["build", *NEEDED, "--dupe_factor", "0"], 2),
        (["plan"], 2),
        (["show", "--help"], 0),
        (["show", "nowhere"], 2),
    ],
)
def test_help_and_wrong_flags_do_not_import_beam(argv, code):
    heavy = ["apache_beam", "numba", "torch"]
    heavy += ["pyarrow", "tokenizers"] if argv != ["show", "nowhere"] else []
    out = run_python(
        "import json, sys; from pipeline.cli import main; "
        f"code = main({argv!r}); "
        f"print(json.dumps([code, [m for m in {heavy!r} if m in sys.modules]]))"
    )
    assert json.loads(out.splitlines()[-1]) == [code, []]


def test_python_m_pipeline_is_the_same_command():
    found = subprocess.run(
        [sys.executable, "-m", "pipeline"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    assert found.stderr.startswith("usage: bert-data COMMAND")


def test_a_flag_that_only_beam_can_judge_is_refused_in_one_line_too():
    found = subprocess.run(
        [sys.executable, "-m", "pipeline", "build", *NEEDED, "--dupe_facter", "3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2
    assert found.stderr == (
        "bert-data: error: no such flag: --dupe_facter; did you mean --dupe_factor?\n"
    )


@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["build", "--help"]])
def test_a_reader_that_has_gone_is_no_error_message(argv):
    reader, writer = os.pipe()
    os.close(reader)
    found = subprocess.run(
        [sys.executable, "-m", "pipeline", *argv],
        cwd=ROOT,
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert found.stderr == b""
    assert found.returncode in (0, 1)  # argparse swallows it itself


def test_a_file_never_says_what_becomes_of_other_files(tmp_path):
    config = BuildConfig(
        input=("a.txt",), vocab_file="vocab.txt", output="out", overwrite=True, dupe_factor=7
    )
    path = tmp_path / "config.json"
    path.write_text(config.to_json())
    manifest = tmp_path / "manifest.json"
    manifest.write_text(
        json.dumps({"schema_version": 1, "configuration": json.loads(config.to_json())})
    )
    for file in (path, manifest):
        found, _ = parse_build(["--config", str(file)])
        assert (found.overwrite, found.resume, found.dupe_factor) == (False, False, 7)
        assert parse_build(["--config", str(file), "--overwrite"])[0].overwrite
        assert parse_build(["--config", str(file), "--resume"])[0].resume
