"""What can be read of a damaged database, and how often it is asked for."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from openoxide.checkpoints.salvage import Salvage, Table


class Asked:
    """A connection that counts its statements."""

    def __init__(self, inner: sqlite3.Connection) -> None:
        self.inner, self.statements = inner, 0

    def execute(self, *statement):
        self.statements += 1
        return self.inner.execute(*statement)


def test_a_table_that_is_not_there_is_damaged_and_not_looked_for_row_by_row(tmp_path):
    with closing(sqlite3.connect(tmp_path / "timeline.db")) as db:
        db.execute("create table other (id integer primary key)")
    with closing(Salvage(tmp_path / "timeline.db")) as salvage:
        connection, salvage._db = salvage._db, (asked := Asked(salvage._db))

        rows = [*salvage.rows(salvage.having(Table("blob", ("id", "size"), "id", is_numbered=True)))]

        assert (rows, salvage.damaged, asked.statements) == ([], {"blob"}, 1)
        salvage._db = connection
