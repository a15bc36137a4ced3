"""A box whose checkpoints get old, and go, without anybody's policy."""

from __future__ import annotations

DAY_MS = 86_400_000


def record(box):
    """What stands there is recorded, and no checkpoint is sealed."""
    for watched in box.service.all_watched():
        with watched.lock:
            watched.record()


def sql(box, query, *values):
    with box.service.timeline.database.writing() as db:
        return db.execute_sql(query, values).fetchall()


def release(box, *numbers):
    """They leave trash for good."""
    for number in numbers:
        sql(box, "delete from checkpoint where number = ?", number)


def age(box, days=2):
    """All of it is older than the fine window, and the newest checkpoint is not the last one of it."""
    box.clock.advance(days * DAY_MS)


def problems(box):
    """What a check of all bytes finds; the box opens its home wider than a daemon does."""
    return [found for found in box.call("check", read_data=True)["problems"] if found["kind"] != "mode"]


def write(box, name, data):
    (box.root / name).write_bytes(data)
