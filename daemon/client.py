"""The one typed client of the daemon: a method for each operation, and the shape of its answer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from openoxide.daemon.caller import Caller

if TYPE_CHECKING:
    from openoxide.daemon.protocol import Items, ProgressCallback
    from openoxide.daemon.protocol.backups import BackupAnswer
    from openoxide.daemon.protocol.checkpoints import (
        ExpireAnswer,
        ForgetAnswer,
        KeepAnswer,
        RestoreAnswer,
        SealedAnswer,
        SearchAnswer,
        ShowAnswer,
        WindowAnswer,
    )
    from openoxide.daemon.protocol.health import (
        CheckAnswer,
        DoctorAnswer,
        DuAnswer,
        LeaveAnswer,
        PruneAnswer,
        StatusAnswer,
    )
    from openoxide.daemon.protocol.memories import (
        BlameAnswer,
        ContextAnswer,
        LintAnswer,
        MarkedAnswer,
        MemoryFile,
        MemoryIndexAnswer,
        MemoryWritten,
        PromotedAnswer,
        RevertedAnswer,
        ToolAnswer,
    )
    from openoxide.daemon.protocol.projects import (
        JoinAnswer,
        MoveAnswer,
        PauseAnswer,
        SurveyAnswer,
        UnwatchAnswer,
        WatchAnswer,
    )
    from openoxide.daemon.protocol.purges import PurgeAnswer
    from openoxide.daemon.protocol.rewinds import RewindAnswer


class Client(Caller):
    """One method for each operation."""

    def status(self) -> StatusAnswer:
        return cast("StatusAnswer", self.call("status", {}))

    def du(self) -> DuAnswer:
        return cast("DuAnswer", self.call("du", {}))

    def check(
        self,
        *,
        read_data: bool = False,
        sample: float | None = None,
        seed: int | None = None,
        progress: ProgressCallback | None = None,
    ) -> CheckAnswer:
        """``sample``: the percentage of all contents that is read; drawn by ``seed``, which is made up where it is None."""
        request = _given(read_data=read_data, sample=sample, seed=seed)
        return cast("CheckAnswer", self.call("check", request, progress))

    def backup(self, to: str, *, dry_run: bool = False, progress: ProgressCallback | None = None) -> BackupAnswer:
        return cast("BackupAnswer", self.call("backup", {"to": to, "dry_run": dry_run}, progress))

    def prune(self, *, dry_run: bool = False) -> PruneAnswer:
        return cast("PruneAnswer", self.call("prune", {"dry_run": dry_run}, lambda _: None))

    def projects(self) -> Items:
        return cast("Items", self.call("projects", {}))

    def watch(self, path: str, *, allow_broad: bool = False, progress: ProgressCallback | None = None) -> WatchAnswer:
        request = {"path": path, "allow_broad": allow_broad}
        return cast("WatchAnswer", self.call("watch", request, progress))

    def survey(self, path: str, *, allow_broad: bool = False, progress: ProgressCallback | None = None) -> SurveyAnswer:
        return cast("SurveyAnswer", self.call("survey", {"path": path, "allow_broad": allow_broad}, progress))

    def unwatch(self, path: str, *, delete_history: bool = False, dry_run: bool = False) -> UnwatchAnswer:
        request = {"path": path, "delete_history": delete_history, "dry_run": dry_run}
        return cast("UnwatchAnswer", self.call("unwatch", request))

    def move_project(
        self,
        old: str,
        new: str,
        *,
        history: int | None = None,
        yes: bool = False,
        progress: ProgressCallback | None = None,
    ) -> MoveAnswer:
        request = _given(old=old, new=new, history=history, yes=yes)
        return cast("MoveAnswer", self.call("projects_move", request, progress))

    def join_projects(self, a: str, b: str) -> JoinAnswer:
        return cast("JoinAnswer", self.call("projects_join", {"a": a, "b": b}))

    def doctor(self, *, fix: bool = False) -> DoctorAnswer:
        return cast("DoctorAnswer", self.call("doctor", {"fix": fix}))

    def leave(self, *, keep_history: bool, dry_run: bool) -> LeaveAnswer:
        return cast("LeaveAnswer", self.call("leave", {"keep_history": keep_history, "dry_run": dry_run}))

    def pause(self, path: str, *, for_ms: int | None = None) -> PauseAnswer:
        return cast("PauseAnswer", self.call("pause", _given(path=path, for_ms=for_ms)))

    def unpause(self, path: str, *, progress: ProgressCallback | None = None) -> PauseAnswer:
        return cast("PauseAnswer", self.call("unpause", {"path": path}, progress))

    def checkpoint(
        self,
        path: str,
        *,
        name: str | None = None,
        pin: bool = False,
        trigger: str | None = None,
        progress: ProgressCallback | None = None,
    ) -> SealedAnswer:
        request = _given(path=path, name=name, pin=pin, trigger=trigger)
        return cast("SealedAnswer", self.call("checkpoint", request, progress))

    def log(
        self,
        path: str,
        *,
        limit: int | None = None,
        all: bool = False,  # noqa: A002 the field's name on the wire
        named: bool = False,
        session: str | None = None,
        since: str | None = None,
        cursor: str | None = None,
    ) -> Items:
        request = _given(path=path, limit=limit, all=all, named=named, session=session, since=since, cursor=cursor)
        return cast("Items", self.call("log", request))

    def show(self, path: str, checkpoint: str) -> ShowAnswer:
        return cast("ShowAnswer", self.call("show", {"path": path, "checkpoint": checkpoint}))

    def pin(self, path: str, checkpoint: str) -> KeepAnswer:
        return cast("KeepAnswer", self.call("pin", {"path": path, "checkpoint": checkpoint}))

    def unpin(self, path: str, checkpoint: str) -> KeepAnswer:
        return cast("KeepAnswer", self.call("unpin", {"path": path, "checkpoint": checkpoint}))

    def name(self, path: str, checkpoint: str, name: str) -> KeepAnswer:
        """An empty ``name`` takes the name off."""
        return cast("KeepAnswer", self.call("name", {"path": path, "checkpoint": checkpoint, "name": name}))

    def forget(self, path: str, checkpoints: Sequence[str], *, dry_run: bool = False) -> ForgetAnswer:
        request = {"path": path, "checkpoints": list(checkpoints), "dry_run": dry_run}
        return cast("ForgetAnswer", self.call("forget", request))

    def unforget(self, path: str, checkpoints: Sequence[str]) -> Items:
        return cast("Items", self.call("unforget", {"path": path, "checkpoints": list(checkpoints)}))

    def expire(self, *, dry_run: bool = False, force: bool = False, trash: bool = False) -> ExpireAnswer:
        return cast("ExpireAnswer", self.call("expire", {"dry_run": dry_run, "force": force, "trash": trash}))

    def purge(
        self,
        path: str,
        *,
        paths: Sequence[str] = (),
        memory: Sequence[str] = (),
        blobs: Sequence[str] = (),
        dry_run: bool = False,
        plan: str | None = None,
        progress: ProgressCallback | None = None,
    ) -> PurgeAnswer:
        """One of ``paths``, ``memory`` (names of notes) and ``blobs``; ``plan``: that of the dry run that was agreed to."""
        lists = {"paths": list(paths), "memory": list(memory), "blobs": list(blobs)}
        request = _given(path=path, **lists, dry_run=dry_run, plan=plan)
        return cast("PurgeAnswer", self.call("purge", request, progress))

    def diff(self, path: str, a: str, b: str | None = None, *, paths: Sequence[str] = (), patch: bool = False) -> Items:
        return cast("Items", self.call("diff", _given(path=path, a=a, b=b, paths=list(paths), patch=patch)))

    def cat(self, path: str, checkpoint: str, file: str) -> bytes:
        return self.call_bytes("cat", {"path": path, "checkpoint": checkpoint, "file": file})

    def history(
        self,
        path: str,
        *,
        file: str | None = None,
        paths: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Items:
        """Every version of ``file``; without one what vanished of ``paths``."""
        request = _given(path=path, file=file, deleted=file is None, paths=list(paths), limit=limit, cursor=cursor)
        return cast("Items", self.call("history", request))

    def search(
        self,
        path: str,
        text: str,
        *,
        binary: bool = False,
        paths: Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        progress: ProgressCallback | None = None,
    ) -> SearchAnswer:
        """``history`` of a text."""
        request = _given(path=path, search=text, binary=binary, paths=list(paths), limit=limit, cursor=cursor)
        return cast("SearchAnswer", self.call("history", request, progress))

    def restore(
        self,
        path: str,
        checkpoint: str,
        to: str,
        *,
        paths: Sequence[str] = (),
        force: bool = False,
        partial: bool = False,
        progress: ProgressCallback | None = None,
    ) -> RestoreAnswer:
        request = _given(
            path=path, checkpoint=checkpoint, to=to, paths=list(paths), force=force, partial=partial or None
        )
        return cast("RestoreAnswer", self.call("restore", request, progress))

    def rewind(
        self,
        path: str,
        checkpoint: str | None = None,
        *,
        turn: str | None = None,
        scope: str | None = None,
        exact: bool = False,
        conflict: str = "keep",
        dry_run: bool = False,
        touch: bool = False,
        partial: bool = False,
        memory: bool = False,
        paths: Sequence[str] = (),
        plan_seq: int | None = None,
        memory_seq: int | None = None,
        progress: ProgressCallback | None = None,
    ) -> RewindAnswer:
        """``plan_seq`` and ``memory_seq``: those of the plan that was agreed to."""
        request = _given(
            path=path,
            checkpoint=checkpoint,
            turn=turn,
            plan_seq=plan_seq,
            scope=scope,
            exact=exact,
            conflict=conflict,
            dry_run=dry_run,
            touch=touch,
            partial=partial or None,
            memory=memory or None,
            memory_seq=memory_seq,
            paths=list(paths),
        )
        return cast("RewindAnswer", self.call("rewind", request, progress))

    def settle(self, path: str, action: str, *, progress: ProgressCallback | None = None) -> RewindAnswer:
        """``action`` is ``continue`` or ``abort``."""
        return cast("RewindAnswer", self.call("settle", {"path": path, "action": action}, progress))

    def turn_begin(self, path: str, *, agent: str, session: str, prompt: str) -> WindowAnswer:
        request = {"path": path, "agent": agent, "session": session, "prompt": prompt}
        return cast("WindowAnswer", self.call("turn_begin", request))

    def turn_end(self, path: str, *, agent: str, session: str, prompt: str | None = None) -> WindowAnswer:
        request = _given(path=path, agent=agent, session=session, prompt=prompt)
        return cast("WindowAnswer", self.call("turn_end", request))

    def tool_begin(self, path: str, *, agent: str, session: str, tool: str, prompt: str | None = None) -> WindowAnswer:
        request = _given(path=path, agent=agent, session=session, prompt=prompt, tool=tool)
        return cast("WindowAnswer", self.call("tool_begin", request))

    def tool_end(
        self, path: str, *, agent: str, session: str, tool: str, writes: Sequence[Mapping[str, str]] | None = None
    ) -> WindowAnswer:
        """``writes`` says what the tool wrote: ``{"path", "hash"}`` of each file."""
        said = None if writes is None else list(writes)
        request = _given(path=path, agent=agent, session=session, tool=tool, writes=said)
        return cast("WindowAnswer", self.call("tool_end", request))

    def undo(
        self,
        path: str,
        *,
        count: int = 1,
        dry_run: bool = False,
        reverses: str | None = None,
        plan_seq: int | None = None,
        memory_seq: int | None = None,
        progress: ProgressCallback | None = None,
    ) -> RewindAnswer:
        """``reverses``, ``plan_seq`` and ``memory_seq``: those of the plan that was agreed to."""
        request = _given(
            path=path, count=count, dry_run=dry_run, reverses=reverses, plan_seq=plan_seq, memory_seq=memory_seq
        )
        return cast("RewindAnswer", self.call("undo", request, progress))

    def redo(
        self,
        path: str,
        *,
        count: int = 1,
        dry_run: bool = False,
        reverses: str | None = None,
        plan_seq: int | None = None,
        memory_seq: int | None = None,
        progress: ProgressCallback | None = None,
    ) -> RewindAnswer:
        """As :meth:`undo`."""
        request = _given(
            path=path, count=count, dry_run=dry_run, reverses=reverses, plan_seq=plan_seq, memory_seq=memory_seq
        )
        return cast("RewindAnswer", self.call("redo", request, progress))

    def memory_index(self, path: str) -> MemoryIndexAnswer:
        return cast("MemoryIndexAnswer", self.call("memory_index", {"path": path}))

    def memory_context(
        self,
        path: str,
        agent: str,
        *,
        file: str | None = None,
        write: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> ContextAnswer:
        """``environ``: the variables that say where agents look."""
        request = _given(path=path, agent=agent, file=file, write=write, environ=environ)
        return cast("ContextAnswer", self.call("memory_context", request))

    def memory_topics(self, path: str) -> Items:
        return cast("Items", self.call("memory_topics", {"path": path}))

    def memory_read(self, path: str, name: str, *, version: int | None = None, raw: bool = False) -> MemoryFile:
        """A file as it is, or as it was at ``version``."""
        operation = "memory_read" if version is None else "memory_read_version"
        return cast("MemoryFile", self.call(operation, _given(path=path, name=name, version=version, raw=raw)))

    def memory_search(self, path: str, text: str, *, limit: int | None = None) -> Items:
        return cast("Items", self.call("memory_search", _given(path=path, text=text, limit=limit)))

    def memory_lint(self, path: str) -> LintAnswer:
        return cast("LintAnswer", self.call("memory_lint", {"path": path}))

    def memory_save(
        self,
        path: str,
        name: str,
        text: str,
        *,
        title: str | None = None,
        description: str | None = None,
        section: str | None = None,
        if_hash: str | None = None,
        session: str | None = None,
    ) -> MemoryWritten:
        """``session``: that of an agent which says that it writes this."""
        request = _given(path=path, name=name, text=text, title=title, description=description, section=section)
        request |= _given(if_hash=if_hash, session=session)
        return cast("MemoryWritten", self.call("memory_save", request))

    def memory_edit(
        self,
        path: str,
        name: str,
        change: Mapping[str, Any],
        *,
        if_hash: str | None = None,
        session: str | None = None,
    ) -> MemoryWritten:
        """``change``: ``{"old", "text"}``, ``{"line", "text"}`` or ``{"append"}``."""
        request = {**_given(path=path, name=name, if_hash=if_hash, session=session), **change}
        return cast("MemoryWritten", self.call("memory_edit", request))

    def memory_delete(
        self, path: str, name: str, *, if_hash: str | None = None, session: str | None = None
    ) -> MemoryWritten:
        request = _given(path=path, name=name, if_hash=if_hash, session=session)
        return cast("MemoryWritten", self.call("memory_delete", request))

    def memory_rename(
        self, path: str, name: str, new: str, *, if_hash: str | None = None, session: str | None = None
    ) -> MemoryWritten:
        request = _given(path=path, name=name, new=new, if_hash=if_hash, session=session)
        return cast("MemoryWritten", self.call("memory_rename", request))

    def memory_tool(self, path: str, command: Mapping[str, Any], *, session: str | None = None) -> ToolAnswer:
        """A call of Anthropic's memory tool: ``command`` is its input."""
        return cast("ToolAnswer", self.call("memory_tool", _given(path=path, command=command, session=session)))

    def memory_history(
        self, path: str, *, name: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> Items:
        return cast("Items", self.call("memory_history", _given(path=path, name=name, limit=limit, cursor=cursor)))

    def memory_blame(self, path: str, name: str) -> BlameAnswer:
        return cast("BlameAnswer", self.call("memory_blame", {"path": path, "name": name}))

    def memory_revert(
        self, path: str, *, name: str | None = None, version: int | None = None, gone: bool = False
    ) -> RevertedAnswer:
        request = _given(path=path, name=name, version=version, gone=gone)
        return cast("RevertedAnswer", self.call("memory_revert", request))

    def memory_promote(self, path: str, *, worktree: str | None = None, dry_run: bool = False) -> PromotedAnswer:
        """``worktree``: the id or the root of the one whose notes become the project's."""
        request = _given(path=path, dry_run=dry_run, **{"from": worktree})
        return cast("PromotedAnswer", self.call("memory_promote", request))

    def memory_review(self, path: str) -> Items:
        return cast("Items", self.call("memory_review", {"path": path}))

    def memory_mark(
        self,
        path: str,
        names: Sequence[str],
        standing: str,
        *,
        every: bool = False,
        if_hash: str | None = None,
    ) -> MarkedAnswer:
        """``standing``: verified or disputed; ``every``: of all that wait, whatever ``names`` are."""
        request = _given(path=path, names=[*names] or None, standing=standing, all=every, if_hash=if_hash)
        return cast("MarkedAnswer", self.call("memory_mark", request))

    def memory_reject(self, path: str, names: Sequence[str], *, every: bool = False) -> RevertedAnswer:
        request = _given(path=path, names=[*names] or None, all=every)
        return cast("RevertedAnswer", self.call("memory_reject", request))

    def operations(self, path: str, *, limit: int | None = None) -> Items:
        return cast("Items", self.call("operations", _given(path=path, limit=limit)))


def socket_path(environ: Mapping[str, str]) -> str:
    """``Home.socket`` of the home that ``environ`` names, without what openoxide.paths imports."""
    folder = environ.get("OPENOXIDE_HOME") or os.path.join(os.path.expanduser("~"), ".openoxide")
    if not os.path.isabs(folder):
        folder = os.path.join(os.getcwd(), folder)
    return os.path.join(folder, "oxided.sock")


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
