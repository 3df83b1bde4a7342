"""The command ``bert-data``: which command runs, how it fails, with what exit code.

Nothing heavy is imported before a command's own flags are found to be right, so that help and
wrong flags answer at once.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import io
import logging
import os
import select
import signal
import sys
import textwrap
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from pipeline.flags import FlagParser, UsageError, parse_build
from schemas import SCHEMA_VERSION
from schemas.errors import (
    BuildError,
    ConfigError,
    MissingColumnError,
    RefusedRecordError,
    SingleDocumentError,
    TooManyRejectsError,
)
from schemas.exits import leave

__all__ = ["COMMANDS", "command", "main"]

#: What setup.py calls the package.
_DISTRIBUTION = "bert-data"

#: The descriptor, since sys.stdout may be anything.
_STDOUT, _STDERR = 1, 2

#: Longest text of an unexpected error that is shown without --debug.
_MAX_MESSAGE = 500

_USAGE = """\
usage: bert-data COMMAND [flags]

Raw text in, masked sentence pairs for BERT's pre-training out.

commands:
{commands}

options, anywhere:
  --debug     show the traceback of an error
  --version   print the version
  -h, --help  this help; after a command, the flags of the command

exit codes: 0 done, 1 failed, 2 wrong flags or configuration, 3 too many records refused
(with --strict, one), 130 interrupted, 143 terminated
"""


def command() -> NoReturn:
    """What ``bert-data`` runs: :func:`main`, and the end of the process."""
    leave(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code. Errors are one line on stderr, ``--debug`` shows more."""
    _have_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    # Worker processes then say on stderr what went wrong in them.
    logging.getLogger("runners").setLevel(logging.DEBUG if debug else logging.NOTSET)
    if not debug:  # before it is imported; what it has to say of a connection that ends is no news
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        return _run(arguments)
    except KeyboardInterrupt as stop:
        building = arguments[:1] == ["build"]
        remedy = "; nothing half-written was left; run again with --resume" if building else ""
        if getattr(stop, "goes_on", False):
            remedy = "; the job goes on without the command"
        signum = getattr(stop, "signum", signal.SIGINT)
        how = "" if signum == signal.SIGINT else f" by {signal.Signals(signum).name}"
        return _fail(f"interrupted{how}{remedy}", 128 + signum, debug=debug)
    except BrokenPipeError as error:
        if _stdout_is_closed():  # | head has seen enough
            return 1
        return _fail(_describe(error), 1, debug=debug)
    except (ConfigError, UsageError, MissingColumnError, SingleDocumentError) as error:
        return _fail(str(error), 2, debug=debug)
    except (TooManyRejectsError, RefusedRecordError) as error:
        return _fail(str(error), 3, debug=debug)
    except BuildError as error:
        return _fail(str(error), 1, debug=debug)
    except Exception as error:  # the last resort: whatever it is, one line and a code
        return _fail(_describe(error), 1, debug=debug)


def _run(arguments: list[str]) -> int:
    logging.getLogger().addFilter(_is_news)
    try:
        code = _dispatch(arguments)
    except SystemExit as stop:  # argparse, after --help
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    sys.stdout.flush()  # here, where a reader that has gone is no error
    return code


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        print(_help(), end="", file=sys.stderr)
        return 2
    name, rest = arguments[0], arguments[1:]
    if name in ("-h", "--help"):
        print(_help(), end="")
    elif name == "--version":
        print(f"bert-data {_version()} (data set version {SCHEMA_VERSION})")
    elif name in COMMANDS:
        return COMMANDS[name][0](rest)
    else:
        close = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(COMMANDS)}"
        raise UsageError(f"no such command: {name}; {hint}")
    return 0


def _build(arguments: list[str]) -> int:
    config, beam_args = parse_build(arguments)
    _warn(config.warnings())
    from pipeline.run import build

    return _code(build(config, beam_args=beam_args))


def _plan(arguments: list[str]) -> int:
    config, beam_args = parse_build(arguments, command="plan", output_required=False)
    _warn(config.warnings())
    from pipeline.plan import plan

    return _code(plan(config, beam_args=beam_args))


def _documents(arguments: list[str]) -> int:
    config, beam_args = parse_build(arguments, command="documents")
    from pipeline.documents import write_documents

    write_documents(config, beam_args=beam_args)
    return 0


def _show(arguments: list[str]) -> int:
    parser = FlagParser(prog="bert-data show", description="Print examples of a data set, as text.")
    parser.add_argument("directory", metavar="DIR", help="what --output of the build named")
    parser.add_argument(
        "-n", type=int, default=5, metavar="N", help="how many, spread evenly (default: 5)"
    )
    parser.add_argument(
        "--split", default="train", help="train or validation (default: train)", metavar="NAME"
    )
    parser.add_argument(
        "--max_seq_length",
        "--max-seq-length",
        type=int,
        metavar="N",
        help="which length (default: the shortest there is)",
    )
    parser.add_argument(
        "--start", type=int, default=0, metavar="N", help="start so many rows later (default: 0)"
    )
    given = parser.parse_args(arguments)
    from pipeline.show import show

    show(
        given.directory,
        n=given.n,
        split=given.split,
        max_seq_length=given.max_seq_length,
        start=given.start,
    )
    return 0


def _check(arguments: list[str]) -> int:
    parser = FlagParser(
        prog="bert-data check",
        description="Hold a data set to every promise: each row, count and checksum. All of it is "
        "done on this machine, wherever the data set is.",
        epilog="exit codes: 0 all of it holds, 1 something does not, 2 no data set or wrong flags",
    )
    parser.add_argument("directory", metavar="DIR", help="what --output of the build named")
    parser.add_argument(
        "--corpus",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="the input of the build: read it again, and prove every row against it; the data set "
        "needs --provenance",
    )
    for name, default, about in (
        ("max_violations", 10, "violations to show (default: 10)"),
        ("num_workers", None, "worker processes (default: one for each core, if it is worth it)"),
    ):
        names = (f"--{name}", f"--{name.replace('_', '-')}")
        parser.add_argument(*names, type=int, default=default, metavar="N", help=about)
    parser.add_argument(
        "--temp_dir",
        "--temp-dir",
        metavar="DIR",
        help="for files needed meanwhile: 20 bytes for each row, with --corpus those of the shuffle "
        "as well, as in a build (default: TMPDIR)",
    )
    given = parser.parse_args(arguments)
    from pipeline.check import check

    return check(
        given.directory,
        corpus=[part for item in given.corpus for part in item.split(",") if part],
        max_violations=given.max_violations,
        num_workers=given.num_workers,
        temp_dir=given.temp_dir,
    )


#: Name, what runs it, what the help says.
COMMANDS: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "build": (_build, "make a data set"),
    "plan": (_plan, "say what a build would read, make and need, and write nothing"),
    "documents": (_documents, "write the documents, cut into sentences, to a file"),
    "show": (_show, "print examples of a data set"),
    "check": (_check, "hold a data set to every promise"),
}


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {about}" for name, (_, about) in COMMANDS.items()]
    return _USAGE.format(commands="\n".join(lines))


def _version() -> str:
    try:
        return importlib.metadata.version(_DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _code(result: object) -> int:
    """A command's exit code; one that returns something else (its manifest) has succeeded."""
    return result if type(result) is int else 0


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        print(f"bert-data: warning: {warning}", file=sys.stderr)


def _fail(message: str, code: int, *, debug: bool) -> int:
    """Say it on stderr; with ``debug``, the traceback of the exception being handled first."""
    if debug:
        traceback.print_exc()
    print(f"bert-data: error: {' '.join(message.split())}", file=sys.stderr)
    return code


def _describe(error: Exception) -> str:
    """An unexpected error in a line. A worker's has its traceback in its text: the end counts."""
    text = str(error).strip()
    if "Traceback (most recent call last)" in text:
        text = text.splitlines()[-1]
    text = textwrap.shorten(text, _MAX_MESSAGE, placeholder=" ...")
    return f"{type(error).__name__}: {text} (--debug shows where)"


def _have_streams() -> None:
    """Somewhere to print to, whatever the process was started with: closed descriptors, Latin-1."""
    # The descriptors themselves, and never closed again: a library that writes to number 2 at exit
    # must not meet a file that was opened since, or none, at which glibc aborts.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = open(_STDOUT, "w", closefd=False)  # noqa: SIM115 - for good
    if sys.stderr is None:
        sys.stderr = open(_STDERR, "w", closefd=False)  # noqa: SIM115 - for good
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _stdout_is_closed() -> bool:
    """Whether the reader of stdout has gone; then nothing more is written to it at exit either."""
    poll = select.poll()
    poll.register(_STDOUT, select.POLLOUT)
    gone = any(event & select.POLLERR for _, event in poll.poll(0))
    if gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)
    return gone


def _is_news(record: logging.LogRecord) -> bool:
    """False for what Beam logs on import where its Google Cloud parts are not installed."""
    return not record.getMessage().startswith("apitools not found")
