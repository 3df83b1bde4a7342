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
from schemas.exits import leave
from schemas.manifest import load_manifest
from schemas.stores import require_store
from train.config import CHOICES, TrainConfig
from train.interrupts import TERMINATED, TerminatedError, termination
from train.memory import keep_memory
from train.recipe import RECIPES, convert, load_recipe, suggest
from train.shapes import PRESETS

__all__ = ["UsageError", "command", "main", "make_parser", "parse"]

_EPILOG = """\
several GPUs: torchrun --nproc_per_node 4 -m train DIR --output CKPT [flags]
exit codes: 0 done, 1 failed, 2 wrong flags or configuration, 130 interrupted, 143 terminated;
--debug shows the traceback of an error
"""

_HELP = {
    "model": f"{', '.join(PRESETS)}, or layers and hidden size, such as 4,256 (default: tiny)",
    "init": "start from the weights of a model that save_pretrained wrote",
    "output": "directory of the trained model and of checkpoints",
    "steps": "updates in all",
    "batch_size": "rows an update, over all processes; or 256,64, one for each phase",
    "learning_rate": "its peak",
    "warmup_steps": "updates until the peak (default: a hundredth of --steps)",
    "phases": "lengths and their shares of the steps, such as seq128:0.9,seq512:0.1",
    "max_seq_length": "which length, without --phases (default: the shortest there is)",
    "optimizer": "bert: BERT's own; adamw: torch's",
    "weight_decay": "of all but LayerNorms and biases",
    "adam_beta2": "of the average of squares",
    "max_grad_norm": "the longest gradient; 0 for any",
    "dropout": "share of activations and attention that is dropped",
    "precision": "of matrix products: float32, bfloat16, float16",
    "gradient_accumulation_steps": "parts that the rows of an update are taken in",
    "compile": "by torch.compile",
    "num_workers": "threads that make batches ahead",
    "verify": "read all shards before the run and check their sums",
    "device": "auto, cpu, cuda",
    "seed": "of weights, order and dropout",
    "log_every": "steps between two lines of progress",
    "save_checkpoints_steps": "steps between two checkpoints, each with validation",
    "keep_checkpoints": "how many are left",
    "resume": "go on from the last checkpoint",
}

#: What the extra ``train`` installs.
_EXTRA = {"matplotlib", "safetensors", "tensorboard", "torch", "transformers"}


#: Flags that are not given leave the value of a recipe, or the default, as it is.
_ABSENT = argparse.SUPPRESS


class UsageError(ValueError):
    """Wrong flags, or a missing package, in one line (exit 2)."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage, which is a screen long."""
        raise UsageError(message)


def command() -> NoReturn:
    """What ``bert-train`` runs: :func:`main`, and the end of the process."""
    leave(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Train; the exit code. Errors are one line on stderr, ``--debug`` shows more."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    termination.watch()
    try:
        return _run([argument for argument in arguments if argument != "--debug"])
    except KeyboardInterrupt:
        return _fail("interrupted; --resume goes on from the last checkpoint", 130, debug=debug)
    except BrokenPipeError:  # | head has seen enough; nothing more is written at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except (ConfigError, UsageError) as error:
        return _fail(str(error), 2, debug=debug)
    except TerminatedError as error:
        return _fail(str(error), TERMINATED, debug=debug)
    except BuildError as error:
        return _fail(str(error), 1, debug=debug)
    except Exception as error:  # the last resort: whatever it is, one line and a code
        return _fail(f"{type(error).__name__}: {error} (--debug shows where)", 1, debug=debug)


def _run(arguments: list[str]) -> int:
    code = 0
    try:
        _train(parse(arguments))
    except SystemExit as stop:  # argparse, after --help
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    sys.stdout.flush()  # here, where an output that is closed or full is found
    return code


def _train(config: TrainConfig) -> None:
    keep_memory()
    require_store("data", config.data)
    load_manifest(config.data)  # refuses what is no data set before torch is waited for
    try:
        from train.train import train
    except ImportError as error:
        package = _missing(error)
        if package is None:
            raise
        raise UsageError(
            f'{package} is not installed, which training needs: pip install "bert-data[train]"'
        ) from error
    train(config)


def _missing(error: BaseException | None) -> str | None:
    """Which package of the extra an error is about; transformers wraps those of its own imports."""
    while error is not None:
        name = (getattr(error, "name", None) or "").partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and name in _EXTRA:
            return name
        error = error.__cause__ or error.__context__
    return None


def parse(arguments: Sequence[str]) -> TrainConfig:
    """The configuration; a flag may be spelled ``--batch-size`` or ``--batch_size``.

    Raises:
      ConfigError: a value that is not allowed.
      UsageError: an unknown flag, a missing one, one without its value.
      SystemExit: after ``--help``.
    """
    spelled = [_with_underscores(argument) for argument in arguments]
    parser = make_parser()
    known = [*parser._option_string_actions, "--debug"]
    for argument in spelled:
        flag = argument.partition("=")[0]
        if flag.startswith("--") and flag not in known:
            hint = suggest(flag, known) or "; bert-train --help lists the flags"
            raise UsageError(f"no such flag: {argument}{hint}")
    given = vars(parser.parse_args(spelled))
    recipe = given.pop("config", None)
    values = load_recipe(recipe) if recipe else {}
    for one, other in (("phases", "max_seq_length"), ("max_seq_length", "phases")):
        if one in given:  # which say the same, in two ways
            values.pop(other, None)
    return TrainConfig(**values | given)


def make_parser() -> argparse.ArgumentParser:
    """The flags; those that are not given are not in what it parses."""
    parser = _Parser(
        prog="bert-train",
        usage="bert-train DIR --output CKPT [flags]",
        description="Train BERT on a data set that bert-data has built.",
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", metavar="DIR", help="a finished data set")
    recipes = ", ".join(RECIPES)
    parser.add_argument(
        "--config",
        metavar="FILE",
        help=f"settings, which flags override: a JSON file, or {recipes}",
    )
    for field in dataclasses.fields(TrainConfig):
        if field.name in _HELP:
            _add_flag(parser, field)
    return parser


def _add_flag(parser: argparse.ArgumentParser, field: dataclasses.Field[Any]) -> None:
    annotation, text = str(field.type), _HELP[field.name]
    if annotation == "bool":
        parser.add_argument(f"--{field.name}", action="store_true", help=text, default=_ABSENT)
        return
    if field.default not in (dataclasses.MISSING, None):
        default = field.default[0] if isinstance(field.default, tuple) else field.default
        text += f" (default: {default})"

    def kind(given: str) -> Any:
        return convert(given, annotation)

    names = {"str": "NAME", "float": "R", "int": "N", "tuple[int,": "N[,N]"}
    kind.__name__ = annotation.partition(" ")[0].partition("[")[0]  # for argparse's messages
    parser.add_argument(
        f"--{field.name}",
        type=kind,
        required=field.default is dataclasses.MISSING,
        default=_ABSENT,
        metavar="|".join(CHOICES.get(field.name, ())) or names[annotation.partition(" ")[0]],
        help=text,
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
