"""Any other runner that Beam knows: its flags pass through as they are."""

from __future__ import annotations

from apache_beam.options.pipeline_options import PipelineOptions

from runners.base import Runner, Submission

__all__ = ["Other"]

#: Runners of this process.
_IN_PROCESS = ("direct", "fnapi", "bundlebaseddirect", "switchingdirect", "interactive", "render")


class Other(Runner):
    """A runner by Beam's name for it."""

    name = "other"

    def __init__(self, beams_name: str):
        self.name = self.beams_name = beams_name  # type: ignore[misc]

    def defaults(self, given: PipelineOptions, submission: Submission) -> list[str]:
        return []

    def sees_this_machine(self, options: PipelineOptions) -> bool:
        short = self.beams_name.rpartition(".")[2].lower().removesuffix("runner")
        return short in _IN_PROCESS or super().sees_this_machine(options)
