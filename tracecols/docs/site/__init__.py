"""The documentation site: its configuration, and what is added to pages when it is built. Not part of the wheel."""
