"""The runners by name. Each module is imported when its runner is asked for."""

from __future__ import annotations

import difflib
import importlib

from runners.base import Runner
from schemas.errors import ConfigError

__all__ = ["LOCAL", "RUNNERS", "find_runner"]

LOCAL = "local"

#: Names that ``--runner`` knows beside ``local``: the module and the class.
RUNNERS = {
    "prism": ("runners.prism", "Prism"),
    "flink": ("runners.flink", "Flink"),
    "spark": ("runners.spark", "Spark"),
    "dataflow": ("runners.dataflow", "Dataflow"),
}


def find_runner(name: str) -> Runner:
    """The runner of a name: ours, what Beam calls it (``FlinkRunner``), or any other that Beam knows.

    Raises:
      ConfigError: Beam knows no such runner, or it lacks a package.
    """
    short = name.lower().removesuffix("runner")
    if short in RUNNERS:
        module, kind = RUNNERS[short]
        runner: Runner = getattr(importlib.import_module(module), kind)()
        return runner
    from apache_beam.runners.runner import create_runner

    from runners.other import Other

    try:
        create_runner(name)
    except ImportError as error:
        raise ConfigError(
            "runner", name, f"needs a package that is not installed ({_line(error)})"
        ) from None
    except (ValueError, AttributeError) as error:
        names = [LOCAL, *RUNNERS]
        close = difflib.get_close_matches(short, names, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
        raise ConfigError(
            "runner", name, f"is none that Beam knows ({_line(error)}); {hint}"
        ) from None
    return Other(name)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
