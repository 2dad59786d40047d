"""An operator in Python that does what its records say, so that tests see what Python gets of the
host: what it prints, how it fails, what it finds of the world. Anything else it passes on.
"""

import json
import os
import random
import socket
import sys
import time
import traceback
from typing import Optional

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import output
from wit_world.imports.output import Rows
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
)


class Lifecycle(exports.Lifecycle):
    def describe(self, config: Optional[str]) -> Description:
        return Description(
            name="probe-python",
            version="",
            inputs=[InputDecl("in", InputKind.UNKEYED, headers=False, options=[])],
            outputs=[OutputDecl("out", OutputKeys.KEPT, options=[])],
            states=[],
            timers=[],
            on_watermark=False,
            options=[],
        )

    def open(self, config: str) -> None:
        if config != "null":
            raise Err(f"there is nothing to configure, found {config}")

    def process(self, batch: Batch, now: Now) -> None:
        offsets, data = batch.values.offsets, batch.values.data
        for row in range(len(batch.times)):
            action = data[offsets[row] : offsets[row + 1]].decode()
            if action == "raise":
                raise ValueError("row without a cause")
            try:
                value = act(action, now)
            except ArithmeticError:
                raise Err(Fault(row, traceback.format_exc()))
            if value is not None:
                values = Nullable(b"", [0, len(value)], value)
                output.emit(0, Rows([row], None, values, None, None))

    def on_timers(self, due: Firing, now: Now) -> None:
        pass

    def on_watermark(self, now: Now) -> None:
        pass

    def finish(self, now: Now) -> None:
        pass

    def migrate(
        self, state: str, version: int, names: Optional[Column], values: Column
    ) -> Nullable:
        raise Err(Fault(None, "there is no older version"))


def act(action: str, now: Now) -> Optional[bytes]:
    match action:
        case "print":
            print("to standard output")
            print("to standard error", file=sys.stderr)
            return None
        case "divide":
            return str(1 // 0).encode()
        case "exit":
            sys.exit(3)
        case "recurse":
            return str(depth(0)).encode()
        case "nest":
            # Recursion in C, which needs more stack than calls of Python's own do.
            return json.dumps(json.loads("[" * 900 + "]" * 900)).encode()
        case "hoard":
            return str(len(bytearray(2**30))).encode()
        case "world":
            began = time.monotonic()
            time.sleep(3600)
            return repr(
                {
                    "clock": time.time_ns() == now.processing_time * 1_000_000,
                    "slept": round(time.monotonic() - began),
                    "random": random.Random().random() < 1,
                    "secret": len(os.urandom(16)),
                    "environment": dict(os.environ),
                    "arguments": sys.argv[1:],
                    "input": sys.stdin.read(),
                    "file": tried(lambda: open("/etc/passwd")),
                    "write": tried(lambda: open("file", "w")),
                    "socket": tried(lambda: socket.socket().connect(("192.0.2.1", 80))),
                }
            ).encode()
        case _:
            return action.encode()


def depth(level: int) -> int:
    try:
        return depth(level + 1)
    except RecursionError:
        return level


def tried(what) -> str:
    try:
        what()
    except OSError as error:
        return type(error).__name__
    return "it worked"
