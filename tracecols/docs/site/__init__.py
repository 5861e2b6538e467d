"""The documentation site: its configuration, and content added to pages when it is built. Not part of the wheel."""
