"""Writes the generated pages: python -m iowarden.daemon.reference DOCUMENTS MAN_PAGES."""

from __future__ import annotations

import sys

from iowarden.daemon.reference import man, pages

if __name__ == "__main__":
    pages.write(sys.argv[1])
    man.write(sys.argv[1], sys.argv[2])
