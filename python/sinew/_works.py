"""Waits for several Works."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from sinew._errors import Error

if TYPE_CHECKING:
    from sinew._core import Work


def wait_all(works: Sequence[Work], timeout: float | timedelta | None = None) -> bool:
    """Waits until all of the Works have ended. Then it raises the first failure in their order.

    False if `timeout`, in seconds, passes first. The calls go on, and wait_all() may be called again.
    """
    if isinstance(timeout, timedelta):
        timeout = timeout.total_seconds()
    until = None if timeout is None else time.monotonic() + timeout
    first: Error | None = None
    for work in works:
        try:
            if not work.wait(None if until is None else max(1e-6, until - time.monotonic())):
                return False
        except Error as failure:
            first = first or failure
    if first is not None:
        raise first
    return True
