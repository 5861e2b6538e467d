"""The documentation site: its configuration, and the timelines that are drawn when it is built. Not part of the
wheel."""
