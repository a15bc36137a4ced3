"""A content store with its database, as a timeline has it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from openoxide.checkpoints.blobs import Blobs
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.model import BlobHash
from openoxide.checkpoints.schema import open_timeline
from openoxide.paths import Home


class Store:
    """Stores contents as a recording does, without a worktree."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.database = open_timeline(self.home.timeline_db)
        self.blobs = Blobs(self.database, self.home, read_only=False)

    def close(self) -> None:
        self.blobs.close()
        self.database.close()

    def keep(self, *contents: bytes) -> list[int]:
        """Store ``contents``; their row ids."""
        payloads = {blob_hash(content): content for content in contents}
        placed = self.blobs.write(self.blobs.unknown(payloads))
        with self.database.writing() as db:
            return list(self.blobs.adopt(db, placed, payloads).values())

    def keep_big(self, content: bytes) -> BlobHash:
        name = self.blobs.write_big(io.BytesIO(content))
        with self.database.writing() as db:
            self.blobs.adopt(db, [], [name])
        self.blobs.forget_pending([name])
        return name

    def sql(self, query: str, *args: object) -> list[Any]:
        with self.database.writing() as db:
            return db.execute_sql(query, args).fetchall()

    def packs(self) -> list[str]:
        return sorted(path.name for path in self.home.blobs.glob("*.pack"))
