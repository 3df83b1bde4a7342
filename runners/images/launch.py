"""What Dataflow's launcher runs for a flex template: a build that is submitted and not waited for.

The launcher gives the template's parameters as flags, and Beam's own. Under them is
``--template_location``, where it wants the job's description.
"""

import sys

from pipeline.cli import main
from schemas.exits import leave

if __name__ == "__main__":
    leave(main(["build", *sys.argv[1:], "--no-wait"]))
