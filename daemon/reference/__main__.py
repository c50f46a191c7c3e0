"""Writes the generated pages: python -m iowarden.daemon.reference DIRECTORY."""

from __future__ import annotations

import sys

from iowarden.daemon.reference.pages import write

if __name__ == "__main__":
    write(sys.argv[1])
