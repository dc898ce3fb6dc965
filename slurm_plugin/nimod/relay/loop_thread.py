"""A thread with an event loop of asyncio, for links: nimod's own loop never waits."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any


class LoopThread:
    """Runs one coroutine, and what it begins, until closed.

    name: for logs.
    main: makes the coroutine.
    """

    def __init__(self, name: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.loop = asyncio.new_event_loop()
        self._main = main
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Cancel all that runs, and wait for its end."""
        self.call_soon(self._cancel)
        self._thread.join(timeout_s)

    def call_soon(self, call: Callable[..., object], *given: Any) -> None:
        """Call something in the thread; from any thread.  After the end nothing happens."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(call, *given)

    def _cancel(self) -> None:
        if self._task is None:  # it is about to begin
            self.loop.call_soon(self._cancel)
        else:
            self._task.cancel()

    def _run(self) -> None:
        runner = asyncio.Runner(loop_factory=lambda: self.loop)
        with runner, suppress(asyncio.CancelledError):
            runner.run(self._noted())

    async def _noted(self) -> None:
        self._task = asyncio.current_task()
        await self._main()
