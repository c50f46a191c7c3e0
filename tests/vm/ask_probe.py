"""Runs in the guest: asks the probe by hand. A line of input is a request, the output one JSON.

Of a descriptor that comes with an answer, the beginning of what can be read of it is told.
"""

import json
import os
import socket
import sys

SOCKET = "/run/iowarden-probe.socket"
PATIENCE_SECONDS = 90.0
"""A probe that was killed beside a hung program is there again after 20 s."""


def main() -> None:
    """Ask everything at once on one connection; print greeting and answers in the order asked."""
    requests = [json.loads(line) for line in sys.stdin]
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE_SECONDS)
    connection.connect(SOCKET)
    frames = [
        {"hello": {"version": 1}},
        *({"id": number, **request} for number, request in enumerate(requests)),
    ]
    for frame in frames:
        body = json.dumps(frame).encode()
        connection.sendall(len(body).to_bytes(4, "big") + body)
    greeting: dict[str, object] = {}
    answers: dict[int, dict[str, object]] = {}
    received = b""
    while len(answers) < len(requests) or not greeting:
        chunk, descriptors, _, _ = socket.recv_fds(connection, 65536, 4)
        if not chunk:
            sys.exit(f"expected {len(requests)} answers, got the end after {len(answers)}")
        received += chunk
        while len(received) >= (end := 4 + int.from_bytes(received[:4], "big")):
            frame = json.loads(received[4:end])
            received = received[end:]
            if "hello" in frame:
                greeting = frame["hello"]
            elif "id" in frame:
                answers[frame["id"]] = frame
                frame["descriptors"] = [os.read(each, 8192).decode() for each in descriptors]
                descriptors = []
    print(json.dumps({"hello": greeting, "answers": [answers[n] for n in sorted(answers)]}))


main()
