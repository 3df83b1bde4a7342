"""The command ``bert-train``: its flags, how it fails, with what exit code.

torch is not imported before the flags are found to be right, so that help and wrong flags answer at
once.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from schemas.errors import BuildError, ConfigError
from schemas.manifest import load_manifest
from train.config import PRESETS, TrainConfig

__all__ = ["UsageError", "main", "parse"]

_EPILOG = """\
exit codes: 0 done, 1 failed, 2 wrong flags or configuration, 130 interrupted;
--debug shows the traceback of an error
"""

_HELP = {
    "model": f"{', '.join(PRESETS)}, or layers and hidden size, such as 4,256",
    "output": "directory of the trained model and of checkpoints",
    "steps": "updates in all",
    "batch_size": "rows an update",
    "learning_rate": "its peak",
    "warmup_steps": "updates until the peak (default: a hundredth of --steps)",
    "max_seq_length": "which length (default: the shortest there is)",
    "seed": "of weights, order and dropout",
    "log_every": "steps between two lines of progress",
    "save_checkpoints_steps": "steps between two checkpoints",
}

#: What the extra ``train`` installs.
_EXTRA = {"safetensors", "torch", "transformers"}


class UsageError(ValueError):
    """Wrong flags, or a missing package, in one line (exit 2)."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage, which is a screen long."""
        raise UsageError(message)


def main(argv: Sequence[str] | None = None) -> int:
    """Train; the exit code. Errors are one line on stderr, ``--debug`` shows more."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    try:
        _run([argument for argument in arguments if argument != "--debug"])
    except SystemExit as stop:  # argparse, after --help
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        return _fail("interrupted; --resume goes on from the last checkpoint", 130, debug=debug)
    except BrokenPipeError:  # | head has seen enough; nothing more is written at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except (ConfigError, UsageError) as error:
        return _fail(str(error), 2, debug=debug)
    except BuildError as error:
        return _fail(str(error), 1, debug=debug)
    except Exception as error:  # the last resort: whatever it is, one line and a code
        return _fail(f"{type(error).__name__}: {error} (--debug shows where)", 1, debug=debug)
    return 0


def _run(arguments: list[str]) -> None:
    config = parse(arguments)
    load_manifest(config.data)  # refuses what is no data set before torch is waited for
    try:
        from train.train import train
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise UsageError(
            f"{error.name} is not installed, which training needs: pip install bert-data[train]"
        ) from error
    train(config)


def parse(arguments: Sequence[str]) -> TrainConfig:
    """The configuration; a flag may be spelled ``--batch-size`` or ``--batch_size``.

    Raises:
      ConfigError: a value that is not allowed.
      UsageError: an unknown flag, a missing one, one without its value.
      SystemExit: after ``--help``.
    """
    parser = _Parser(
        prog="bert-train",
        usage="bert-train DIR --output CKPT [flags]",
        description="Train BERT on a data set that bert-data has built.",
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", metavar="DIR", help="a finished data set")
    for field in dataclasses.fields(TrainConfig):
        if field.name in _HELP:
            _add_flag(parser, field)
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    given = parser.parse_args([_with_underscores(argument) for argument in arguments])
    return TrainConfig(**vars(given))


def _add_flag(parser: argparse.ArgumentParser, field: dataclasses.Field[Any]) -> None:
    required = field.default is dataclasses.MISSING
    kind = {"str": str, "float": float}.get(str(field.type), int)
    default = "" if required or field.default is None else f" (default: {field.default})"
    parser.add_argument(
        f"--{field.name}",
        type=kind,
        required=required,
        default=None if required else field.default,
        metavar={str: "NAME", float: "R", int: "N"}[kind],
        help=_HELP[field.name] + default,
    )


def _with_underscores(argument: str) -> str:
    flag, equals, value = argument.partition("=")
    return (
        flag.replace("-", "_").replace("__", "--", 1) + equals + value
        if flag[:2] == "--"
        else argument
    )


def _fail(message: str, code: int, *, debug: bool) -> int:
    """Say it on stderr; with ``debug``, the traceback of the exception being handled first."""
    if debug:
        traceback.print_exc()
    print(f"bert-train: error: {' '.join(message.split())}", file=sys.stderr)
    return code
