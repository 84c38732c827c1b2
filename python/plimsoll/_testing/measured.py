"""Measures one test: the part of the session's recording in which the test function runs."""

from __future__ import annotations

import gc
from pathlib import Path

import plimsoll
from plimsoll import _record, recording
from plimsoll._testing import files
from plimsoll._testing.limits import LeakLimit, Limit, UnusedLimit
from plimsoll._testing.session_recording import (
    NotRecordedError,
    SessionRecording,
    UsesRecording,
)
from plimsoll._testing.tensors import AllocatedTensors
from plimsoll._testing.verdicts import unused_verdict, verdict_on
from plimsoll._torch import attachment
from plimsoll.errors import CorruptError, Error, UnreadableError


class MeasuredTest:
    """The memory that a test allocates after `begin`.

    Args:
        session: The recording, or the reason why there is none.
        test_id: The node id that pytest gives the test.
        root: The folder that contains ``.plimsoll``.
    """

    def __init__(
        self, session: SessionRecording | NotRecordedError, test_id: str, root: Path
    ) -> None:
        self.limits: list[Limit] = []
        self.has_fixture = False
        self._session = session
        self._test_id = test_id
        self._root = root
        self._begin: int | NotRecordedError = NotRecordedError("the test has not begun")
        self._dropped = self._steps = 0
        self._uses: UsesRecording | NotRecordedError | None = None  # while the test runs
        self._part_with_uses: bytes | NotRecordedError | None = None  # after that

    @property
    def warmup(self) -> int:
        """The number of runs of the test before the one that counts."""
        return max((each.warmup for each in self.limits if isinstance(each, LeakLimit)), default=0)

    def begin(self) -> None:
        """Mark the start of the test function."""
        session = self._session
        if isinstance(session, NotRecordedError):
            return
        if self.limits or self.has_fixture:
            # This resets the counters of the young generations, so that later collections happen at
            # the same allocations whichever tests ran before.
            gc.collect(1)
            if any(isinstance(each, UnusedLimit) for each in self.limits):
                self._uses = _begin_uses(session)
            try:
                self._begin, self._dropped = session.begin_part(), session.dropped()
            except NotRecordedError as error:
                self._begin = error
            self._steps = recording._steps
        _record.begin_region(self._test_id)

    def end(self) -> None:
        """Mark the end of the test function."""
        if not isinstance(self._session, NotRecordedError):
            _record.end_region(self._test_id)
        uses, self._uses = self._uses, None
        if isinstance(uses, UsesRecording):
            try:
                self._part_with_uses = uses.end()
            except NotRecordedError as error:
                self._part_with_uses = error
        else:
            self._part_with_uses = uses

    def tensors(self) -> AllocatedTensors:
        """Return the tensors that the test has allocated so far.

        Raises:
            NotRecordedError: The test's memory is not recorded.
        """
        return AllocatedTensors(self._trace(), self._test_id)

    def failures(self) -> list[str]:
        """Return a message for each limit that the test exceeds, and the path of its trace.

        Raises:
            NotRecordedError: The test's memory is not recorded.
        """
        steps = recording._steps - self._steps
        data = self._trace()
        tensors = AllocatedTensors(data, self._test_id)
        is_limited = any(isinstance(each, LeakLimit) for each in self.limits)
        if is_limited and tensors.are_live():
            gc.collect()  # only if needed: it takes 0.1 s with torch in memory
            data = self._trace()
            tensors = AllocatedTensors(data, self._test_id)
        verdicts = []
        for limit in self.limits:
            if isinstance(limit, UnusedLimit):
                with_uses = self._trace_with_uses()
                verdict = unused_verdict(limit, AllocatedTensors(with_uses, self._test_id))
                data = data if verdict is None else with_uses
            else:
                verdict = verdict_on(limit, tensors, steps)
                if verdict is not None and isinstance(limit, LeakLimit):
                    data = self._trace_with_holders()
                    verdict = verdict_on(limit, AllocatedTensors(data, self._test_id), steps)
            verdicts.append(verdict)
        texts = [verdict.text() for verdict in verdicts if verdict is not None]
        if texts:
            texts.append(self._trace_line(self._save(data)))
        return texts

    def write_baseline(self) -> None:
        """Write the memory that the test has used so far as its baseline."""
        path = files.baseline_path(self._root, self._test_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.tensors().trace.export(path, format="digest")

    def growth_since_baseline(self) -> str | None:
        """Return a message if the test uses more memory than its baseline, else None."""
        path = files.baseline_path(self._root, self._test_id)
        shown = path.relative_to(self._root)
        if not path.exists():
            return (
                f"plimsoll: there is no baseline {shown}\n"
                "  → Run pytest --plimsoll-update, and commit the file that it writes."
            )
        trace = self._save(self._trace())
        try:
            difference = plimsoll.diff(path, trace)
        except UnreadableError as error:
            trace.unlink()
            reason = str(error) if isinstance(error, CorruptError) else "it is not a digest"
            return (
                f"plimsoll: the baseline {shown} cannot be read: "
                f"{reason.removeprefix(f'{path}: ')}\n"
                "  → Restore the file, or run pytest --plimsoll-update and commit the new one."
            )
        if difference.growth_bytes == 0:
            trace.unlink()
            return None
        return (
            f"{difference.growth_bytes:,} B more than the baseline (plimsoll)\n"
            f"  Baseline: {shown}\n"
            f"{difference.summary()}\n"
            "  → If this is intended, run pytest --plimsoll-update and commit the file.\n"
            f"{self._trace_line(trace)}"
        )

    def lost_events(self) -> int:
        """Return how many events were lost while the test ran."""
        if isinstance(self._session, NotRecordedError) or isinstance(self._begin, NotRecordedError):
            return 0
        return self._session.dropped() - self._dropped

    def _trace(self) -> bytes:
        if isinstance(self._session, NotRecordedError):
            raise self._session
        if isinstance(self._begin, NotRecordedError):
            raise self._begin
        return self._session.part_since(self._begin)

    def _trace_with_holders(self) -> bytes:
        attached = attachment.attached()
        if attached is not None:
            attached.find_holders(recording.WALK_MS)
        return self._trace()

    def _trace_with_uses(self) -> bytes:
        if isinstance(self._part_with_uses, bytes):
            return self._part_with_uses
        raise self._part_with_uses or NotRecordedError("the test has not ended")

    def _save(self, data: bytes) -> Path:
        path = files.trace_path(self._root, self._test_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def _trace_line(self, path: Path) -> str:
        return f"  Trace of the test: {path.relative_to(self._root)}"


def _begin_uses(session: SessionRecording) -> UsesRecording | NotRecordedError:
    try:
        return UsesRecording(session)
    except (Error, OSError) as error:
        return NotRecordedError(f"uses of memory are not recorded: {error}")
    except NotRecordedError as error:
        return error
