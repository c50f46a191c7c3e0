"""Writes what is generated: python -m iowarden.daemon.reference PACKAGING."""

from __future__ import annotations

import sys

from iowarden.daemon.reference import completion, man, pages

if __name__ == "__main__":
    pages.write(f"{sys.argv[1]}/doc")
    man.write(f"{sys.argv[1]}/doc", f"{sys.argv[1]}/man")
    completion.write(f"{sys.argv[1]}/completion")
