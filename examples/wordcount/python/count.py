"""Counts the records of each key, and says the count when the input has ended.

The same operator as ../count, written in Python against wit/operator.wit itself: what Rust's SDK shows
a record at a time comes as a batch of columns here, and state is read and written a column at a time.
"""

import traceback
from array import array
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Optional

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import output, state, timers
from wit_world.imports.output import Rows
from wit_world.imports.state import Cells
from wit_world.imports.types import (
    Batch,
    Column,
    Description,
    Fault,
    Firing,
    InputDecl,
    InputKind,
    Now,
    Nullable,
    OutputDecl,
    OutputKeys,
    StateDecl,
    StateKind,
    TimeDomain,
    TimerDecl,
)

# Positions in the description's lists, by which calls name them.
COUNT, END, COUNTS = 0, 0, 0

# Event time when the input has ended: the maximum of s64.
END_OF_INPUT = 2**63 - 1


class Lifecycle(exports.Lifecycle):
    def describe(self, config: Optional[str]) -> Description:
        return Description(
            name="wordcount-count",
            version="0.1.0",
            inputs=[InputDecl("words", InputKind.KEYED, headers=False, options=[])],
            outputs=[OutputDecl("counts", OutputKeys.KEPT, options=[])],
            states=[
                StateDecl(
                    "count",
                    StateKind.VALUE,
                    version=1,
                    migrates_from=[],
                    ttl=None,
                    value_encoding="u64-le",
                    entry_encoding="",
                    options=[],
                )
            ],
            timers=[TimerDecl("end", TimeDomain.EVENT, options=[])],
            on_watermark=False,
            options=[],
        )

    def open(self, config: str) -> None:
        if config != "null":
            raise Err(f"there is nothing to configure, found {config}")

    def process(self, batch: Batch, now: Now) -> None:
        keys = list(range(len(batch.keys.distinct.offsets) - 1))
        cells = Cells(keys, namespaces=None)
        values = state.get(COUNT, cells)
        counts = stored(values)

        # Nothing is null, as usual, if there is nothing in `present`.
        new = [key for key, there in enumerate(values.present) if not there]
        if new:
            timers.set(END, Cells(new, namespaces=None), [END_OF_INPUT] * len(new))

        # Each row has the position of its key; without positions, row i has key i.
        for key in batch.keys.index or keys:
            counts[key] += 1
        state.put(COUNT, cells, to_store(counts))

    def on_timers(self, due: Firing, now: Now) -> None:
        rows = range(len(due.times))
        counts = stored(state.get(COUNT, Cells(list(rows), namespaces=None)))
        lines = []
        for row, word in enumerate(strings(due.keys)):
            try:
                lines.append(f"{word.decode()}\t{counts[row]}".encode())
            except UnicodeDecodeError:
                # With the row, the host need not look for it. Whatever else is raised is a trap, and
                # its traceback is in the job's error as well.
                raise Err(Fault(row, traceback.format_exc()))
        output.emit(COUNTS, Rows(list(rows), None, column(lines), None, None))

    def on_watermark(self, now: Now) -> None:
        pass

    def finish(self, now: Now) -> None:
        pass

    def migrate(
        self, state: str, version: int, names: Optional[Column], values: Column
    ) -> Nullable:
        raise Err(Fault(None, f"state `{state}` has no version {version}"))


def stored(values: Nullable) -> list[int]:
    """The numbers of cells, 0 where there is none: eight bytes each, as this machine has them."""
    numbers = array("Q", values.data).tolist()
    if not values.present:
        return numbers
    rest = iter(numbers)
    return [next(rest) if there else 0 for there in values.present]


def to_store(numbers: list[int]) -> Nullable:
    """The opposite of `stored`."""
    offsets = list(range(0, 8 * len(numbers) + 1, 8))
    return Nullable(present=b"", offsets=offsets, data=array("Q", numbers).tobytes())


def strings(of: Column) -> Iterator[bytes]:
    """The strings of a column, one after the other."""
    return (of.data[start:end] for start, end in pairwise(of.offsets))


def column(of: list[bytes]) -> Nullable:
    """The opposite of `strings`, for a list in which nothing is null."""
    offsets = list(accumulate(map(len, of), initial=0))
    return Nullable(present=b"", offsets=offsets, data=b"".join(of))
