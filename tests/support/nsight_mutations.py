"""Damage exports of Nsight Systems at random: bytes of the file, and values, rows, columns and tables of the database."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

from support import damage
from support.damage import mutate

VALUES = (
    None, 0, 1, -1, 2, 7, 59, (1 << 24) - 1, (1 << 32) - 1, 1 << 32, 1 << 48 | 1 << 24, (1 << 62), (1 << 63) - 1, -(1 << 63),
    1.5, float("inf"), "", "soon", "9" * 30, "ncclDevKernel_AllReduce", b"", b"\0" * 32, b"\xff" * 56,
)  # fmt: skip


def change(data: bytes, chance: random.Random) -> bytes:
    """Change some values, rows, columns or tables of a database."""
    file = sqlite3.connect(":memory:")
    file.deserialize(data)
    for _ in range(chance.randrange(1, 4)):
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")]
        if not tables:
            break
        table = chance.choice(tables)
        columns = [row[1] for row in file.execute(f'PRAGMA table_info("{table}")')]
        rows = [row for (row,) in file.execute(f'SELECT rowid FROM "{table}"')]
        column, row = chance.choice(columns), chance.choice(rows or [0])
        what = chance.randrange(20)
        if what == 0:
            file.execute(f'DROP TABLE "{table}"')
        elif what == 1 and len(columns) > 1:
            file.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
        elif what == 2:
            file.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "other_{column}"')
        elif what == 3:
            file.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_V2"')
        elif what == 4:
            file.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (row,))
        elif what == 5:
            file.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}" WHERE rowid = ?', (row,))
        elif what == 6:
            file.execute(f'UPDATE "{table}" SET "{column}" = ?', (chance.choice(VALUES),))
        else:
            file.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (chance.choice(VALUES), row))
    file.commit()
    changed = file.serialize()
    file.close()
    return changed


class Damage(damage.Damage):
    """An export that is damaged."""

    def __init__(self, anchor: Path) -> None:
        super().__init__(anchor, (anchor,))

    def damaged(self, chance: random.Random) -> tuple[Path, bytes]:
        """Return the file and its damaged content."""
        return self.anchor, (change if chance.random() < 0.8 else mutate)(self.files[self.anchor], chance)
