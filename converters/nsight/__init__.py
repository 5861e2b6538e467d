"""Exports of Nsight Systems: SQLite and folders of Parquet files."""
