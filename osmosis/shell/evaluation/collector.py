"""The cyclic garbage collector while a run goes on (decision 0062).

What was imported and prepared stays to the end, and of each item a few records stay that hold no cycles. Looking through all of
that again and again would be the one cost of an item that grows with the run.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_YOUNG: Final = 10_000
"""New containers after which the young ones are looked through; some hundred items in flight have fewer."""


@contextmanager
def settled_garbage() -> Iterator[None]:
    """Whatever exists now is not looked through, and the rest less often. Afterwards all is as before."""
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_YOUNG, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
