"""The flags of a build, made from the fields of ``BuildConfig``, and what is not among them.

``--max-seq-length`` and ``--do_lower_case=True`` are accepted for ``--max_seq_length`` and
``--do_lower_case``. A flag that is not ours is passed on if Beam knows it and refused otherwise;
Beam is imported only to ask it that.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import os
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pipeline.combinations import default_predictions
from pipeline.config import SETTINGS_BEFORE, BuildConfig
from pipeline.settings import Setting, Switch, Text, checked
from schemas.errors import ConfigError

__all__ = ["FlagParser", "UsageError", "build_parser", "parse_build"]

_DESCRIPTION = {
    "build": "Make masked sentence pairs for BERT's pre-training from raw text.",
    "plan": "Say what a build with these flags would read, make and need; nothing is written.",
    "documents": "Write the documents of a corpus, cut into sentences, to one file (.avro, .parquet or "
    ".jsonl): to be looked at, mended, and built from.",
}

#: Flags of Beam's that would break a promise of ours.
_NOT_BEAMS = {
    "streaming": "a build is a batch job; leave it out",
    "save_main_session": "nothing of the main session is needed; leave it out",
}


#: What is said to be missing where it is not a flag.
_NEEDED = {"input": "INPUT (a path, glob, folder or URL)"}


#: Switches that a configuration file cannot set: that of a manifest would replace what it describes.
_SAID_ANEW = ("overwrite", "resume")

#: Of the groups of flags about the input and the text, ``documents`` does not have these; and of the
#: others it has those.
_NOT_OF_DOCUMENTS = ("vocab_file", "do_lower_case", "deduplicate")
_ALSO_OF_DOCUMENTS = (
    "output",
    "overwrite",
    "num_workers",
    "max_reject_fraction",
    "strict",
    "temp_dir",
)

#: What it says of these otherwise than a build: metavar and help.
_DOCUMENTS_SAY = {
    "output": ("FILE", "file to write, which is what its name ends in: .avro, .parquet or .jsonl"),
    "overwrite": (None, "replace the file if it is there"),
    "temp_dir": ("DIR", "directory for files needed during the run (default: that of the output)"),
}


class UsageError(ValueError):
    """Wrong flags, in one line (exit 2)."""


class FlagParser(argparse.ArgumentParser):
    """An ``ArgumentParser`` without abbreviations whose errors are :class:`UsageError`."""

    def __init__(self, **keywords: Any):
        keywords.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **keywords)

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage, which is a screen long."""
        missing = message.removeprefix("the following arguments are required: ")
        raise UsageError(message if missing == message else self.must_be_given(missing))

    def must_be_given(self, names: str) -> str:
        """What is said where these are not."""
        return f"must be given: {names}; {self.prog} --help says more"


def parse_build(
    argv: Sequence[str], *, command: str = "build", output_required: bool = True
) -> tuple[BuildConfig, list[str]]:
    """The configuration, and the flags to pass on to Beam.

    Args:
      argv: the arguments after the command.
      command: whose flags: ``build``, ``plan`` or ``documents``, which needs no vocabulary.
      output_required: False where nothing is written; ``output`` is then the null device unless
        it is given.

    Raises:
      ConfigError: a value that is not allowed.
      UsageError: an unknown flag, a missing one, one without its value.
      SystemExit: after ``--help``.
    """
    parser = build_parser(command)
    given, others = parser.parse_known_args([_spell_alike(argument) for argument in argv])
    texts = vars(given)
    values = _read_config_file(texts.pop("config"))
    flags = {name: _value(name, text) for name, text in texts.items()}
    if "max_predictions_per_seq" not in flags and {"max_seq_length", "masked_lm_prob"} & set(flags):
        _forget_default_predictions(values)
    values |= flags
    if not output_required:
        values.setdefault("output", os.devnull)
    if command == "documents":
        values["vocab_file"] = os.devnull
    inputs, beam_args = _sort_others(others, command)
    if inputs:
        values["input"] = (*inputs, *(values.get("input", ()) if "input" in flags else ()))
    needed = [f.name for f in dataclasses.fields(BuildConfig) if f.default is dataclasses.MISSING]
    if missing := [_NEEDED.get(name, f"--{name}") for name in needed if name not in values]:
        raise UsageError(parser.must_be_given(", ".join(missing)))
    return BuildConfig.from_values(values), beam_args


def build_parser(command: str = "build") -> FlagParser:
    """The parser of ``build``, ``plan``, ``documents``; values stay text, only what is given is set."""
    needs = {"build": " --vocab_file FILE --output DIR", "plan": " --vocab_file FILE"}
    parser = FlagParser(
        prog=f"bert-data {command}",
        usage=f"bert-data {command} INPUT...{needs.get(command, ' --output FILE')} [flags]",
        description=textwrap.fill(_DESCRIPTION[command]),
        epilog="Flags of Apache Beam, such as --direct_running_mode, are passed on to it.",
    )
    groups = {}
    for field in dataclasses.fields(BuildConfig):
        setting: Setting = field.metadata["setting"]
        if command == "documents" and not _is_of_documents(field.name, setting):
            continue
        if setting.group not in groups:
            groups[setting.group] = parser.add_argument_group(setting.group)
        _add_flag(groups[setting.group], field, command)
    groups["running"].add_argument(
        "--config",
        metavar="FILE",
        default=None,
        help="read settings from this JSON file, or from the manifest of a data set, all but --overwrite "
        "and --resume; flags given as well win",
    )
    return parser


def _is_of_documents(name: str, setting: Setting) -> bool:
    if name in _ALSO_OF_DOCUMENTS:
        return True
    return setting.group in ("input", "text") and name not in _NOT_OF_DOCUMENTS


def _add_flag(group: argparse._ArgumentGroup, field: dataclasses.Field[Any], command: str) -> None:
    setting: Setting = field.metadata["setting"]
    keywords: dict[str, Any] = {"default": argparse.SUPPRESS, "help": _help(field)}
    if isinstance(setting.kind, Switch):
        keywords["action"] = argparse.BooleanOptionalAction
    elif field.name == "input":
        # A pattern that the shell has expanded, and --input more than once.
        keywords |= {"nargs": "+", "action": "extend", "metavar": "FILE"}
    else:
        keywords["metavar"] = setting.kind.metavar
    if command == "documents" and field.name in _DOCUMENTS_SAY:
        metavar, keywords["help"] = _DOCUMENTS_SAY[field.name]
        keywords |= {"metavar": metavar} if metavar else {}
    group.add_argument(f"--{field.name}", **keywords)


def _help(field: dataclasses.Field[Any]) -> str:
    setting: Setting = field.metadata["setting"]
    shown = isinstance(setting.kind, Switch | Text) or field.name == "input"
    parts = [] if shown else [setting.kind.allowed]
    if default := setting.default or _as_text(field.default):
        parts.append(f"default: {default}")
    return (setting.help + (f" ({'; '.join(parts)})" if parts else "")).replace("%", "%%")


def _as_text(value: Any) -> str:
    if value is dataclasses.MISSING:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)


def _value(name: str, text: Any) -> Any:
    """A flag's text as a value of its field; BuildConfig refuses what is wrong."""
    kind = BuildConfig.__dataclass_fields__[name].metadata["setting"].kind
    if isinstance(text, list):
        return tuple(part for item in text for part in kind.parse(item))
    return kind.parse(text) if isinstance(text, str) else text


def _spell_alike(argument: str) -> str:
    """A flag of ours in its one spelling: underscores, and a switch without a value."""
    flag, equals, value = argument.partition("=")
    name = flag.removeprefix("--").replace("-", "_")
    positive = name.removeprefix("no_")
    kinds = {f.name: f.metadata["setting"].kind for f in dataclasses.fields(BuildConfig)}
    if not flag.startswith("--") or (name not in kinds and positive not in kinds):
        return argument
    if name not in kinds:
        return f"--no-{positive}{equals}{value}"
    kind = kinds[name]
    if equals and isinstance(kind, Switch):
        return f"--{name}" if checked(name, kind, kind.parse(value)) else f"--no-{name}"
    return f"--{name}{equals}{value}"


def _read_config_file(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError("config", path, f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError("config", path, f"is not JSON: {error}") from None
    if isinstance(values, dict) and "schema_version" in values:
        values = values.get("configuration")  # it is a whole manifest
        values = SETTINGS_BEFORE | values if isinstance(values, dict) else values
    if not isinstance(values, dict):
        raise ConfigError("config", path, "must be a JSON object of names and values")
    # What is to become of the files that are there is said anew each time, and never by a file.
    return {name: value for name, value in values.items() if name not in _SAID_ANEW}


def _forget_default_predictions(values: dict[str, Any]) -> None:
    """Drop what a file's numbers of predictions were worked out to be: the flags change it."""
    lengths = values.get("max_seq_length", [128])
    prob = values.get("masked_lm_prob", 0.15)
    try:
        usual = [default_predictions(length, masked_lm_prob=prob) for length in lengths]
    except TypeError:  # not numbers: refused by BuildConfig, with the right words
        return
    if values.get("max_predictions_per_seq") == usual:
        del values["max_predictions_per_seq"]


def _sort_others(arguments: Sequence[str], command: str) -> tuple[list[str], list[str]]:
    """What is no flag of ours: the inputs, and Beam's flags with their values.

    Only Beam knows which of its flags take a value, so it is asked; without any flag all are inputs.

    Raises:
      ConfigError: a flag of Beam's that breaks a promise.
      UsageError: a flag that is neither ours nor Beam's.
    """
    if not any(argument.startswith("-") for argument in arguments):
        return list(arguments), []
    from apache_beam.options.pipeline_options import PipelineOptions

    parsers: list[argparse.ArgumentParser] = []
    PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append)
    theirs = parsers[0]._option_string_actions
    parser = FlagParser(add_help=False, parents=[parsers[0]], conflict_handler="resolve")
    _, unknown = parser.parse_known_args(list(arguments))
    for argument in unknown:
        if argument.startswith("-"):
            flag, equals, value = argument.partition("=")
            _refuse_unknown(flag, value if equals else None, theirs, command)
    for argument in arguments:
        name = argument.partition("=")[0].removeprefix("--")
        if argument.startswith("--") and name in _NOT_BEAMS:
            raise ConfigError(name, True, _NOT_BEAMS[name])
    beam_args, inputs = list(arguments), []
    for argument in unknown:
        beam_args.remove(argument)
        inputs.append(argument)
    return inputs, beam_args


def _refuse_unknown(flag: str, value: str | None, theirs: Iterable[str], command: str) -> NoReturn:
    ours = build_parser(command)._option_string_actions
    spelling = "--" + flag.lstrip("-").replace("-", "_")
    close = difflib.get_close_matches(spelling, [*ours, *theirs], 1, 0.7)
    hint = (
        f"; did you mean {close[0]}?" if close else f"; bert-data {command} --help lists the flags"
    )
    raise UsageError(f"no such flag: {flag}{'' if value is None else f'={value}'}{hint}")
