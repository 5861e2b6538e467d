"""OTF2: the Open Trace Format, version 2."""
