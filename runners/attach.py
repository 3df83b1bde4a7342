"""Started by Beam where it wants a worker process; hands the work to a waiting one.

``python attach.py FOLDER`` sends Beam's settings (the environment variables of its container
contract) to a process that :mod:`runners.workers` forked earlier and lives as long as that works.
Only the standard library, and little of it: this is start-up time.
"""

import os
import socket
import sys

__all__ = ["main"]


def main(folder: str) -> int:
    """Returns 0 when the worker has finished its work, 1 when it died."""
    # The socket's own path may be too long for a socket's address, which holds 107 bytes.
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    settings = [
        f"{name}={value}"
        for name, value in os.environ.items()
        if name.endswith("_DESCRIPTOR") or name in ("PIPELINE_OPTIONS", "WORKER_ID")
    ]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(f"/proc/self/fd/{directory}/socket")
            connection.sendall("\0".join(settings).encode())
            connection.shutdown(socket.SHUT_WR)
            return 0 if connection.recv(1) == b"0" else 1
        except OSError:  # it died before it listened, or while it worked: the driver says so
            return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
