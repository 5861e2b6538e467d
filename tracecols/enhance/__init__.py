"""Model enhancement (thesis, chapter 3): pointer attributes, call paths and compound tables."""
