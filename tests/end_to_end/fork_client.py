"""A command for a shell that ``fork_server`` runs; a socket comes first, then its arguments."""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
    server.connect(sys.argv[1])
    job = {"folder": os.getcwd(), "arguments": sys.argv[2:]}
    socket.send_fds(server, [json.dumps(job).encode()], [0, 1, 2])
    sys.exit(int(server.recv(16)))
