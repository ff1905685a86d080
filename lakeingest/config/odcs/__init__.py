"""A pipeline's contract as a document of the Open Data Contract Standard (ODCS, version 3), and one as a pipeline file.

What the standard has no word for stands in customProperties, so that a document that lakeingest wrote says all that the
pipeline file says of the table. Of one that somebody else wrote, each part without a counterpart is named.
"""

from __future__ import annotations

from lakeingest.config.odcs.read import Imported, NoDocument, read
from lakeingest.config.odcs.write import Check, document

__all__ = ["Check", "Imported", "NoDocument", "document", "read"]
