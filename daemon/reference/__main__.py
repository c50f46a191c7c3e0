"""Writes what is generated.

python -m iowarden.daemon.reference pages DIRECTORY
the pages of packaging/doc, which are committed
python -m iowarden.daemon.reference share DOCUMENTS DIRECTORY
what is installed in /usr/share and not committed: man pages, completion. DOCUMENTS:
packaging/doc, of which some are man pages as well
"""

from __future__ import annotations

import sys

from iowarden.daemon.reference import pages, share

if __name__ == "__main__":
    if sys.argv[1] == "pages":
        pages.write(sys.argv[2])
    else:
        share.write(sys.argv[2], sys.argv[3])
