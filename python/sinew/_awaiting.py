"""Lets a coroutine wait for a Work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sinew._core import Work
    from sinew._errors import Error

# A World for one thread makes progress only in calls. The pauses between these grow up to the last of them, in seconds.
_PAUSES = (0.0,) * 100 + (0.00005,) * 20 + (0.001,)


async def ended(work: Work) -> None:
    """Ends with the call of `work`, and raises its failure. Other tasks of the event loop run meanwhile."""
    if not work.test():
        if work.ends_by_itself:
            await _told(work)
        else:
            await _asked(work)
    work.wait()


async def _told(work: Work) -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def resolve() -> None:
        if not future.done():
            future.set_result(None)

    def from_thread(failure: Error | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(resolve)

    work.then(from_thread)
    await future


async def _asked(work: Work) -> None:
    pauses = 0
    while not work.test():
        await asyncio.sleep(_PAUSES[min(pauses, len(_PAUSES) - 1)])
        pauses += 1
