#!/usr/bin/env python3
"""Makes orders.jsonl and payments.jsonl: made up, the same on every run. Their contents are committed; this is how
they came about.

Forty orders of one morning. Most are paid within an hour, some later or never, one twice, and one payment names an
order that does not exist. Both files are out of order by up to five minutes.
"""

import json
import random
from datetime import datetime, timedelta, timezone
from pathlib import Path

MORNING = datetime(2026, 3, 2, 8, 0, tzinfo=timezone.utc)
CUSTOMERS = ["ada", "bob", "cyd", "dan", "eve"]
METHODS = ["card", "transfer", "cash"]
DELAY = 5 * 60  # seconds, at most: `out_of_order` in job.yaml

# Only random() gives the same numbers in every version of Python.
draw = random.Random(1984).random


def below(n):
    return int(draw() * n)


def at(second):
    return (MORNING + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")


def write(name, rows):
    with open(Path(__file__).with_name(name), "w") as out:
        for _, row in sorted(rows, key=lambda row: row[0] + below(DELAY + 1)):
            out.write(json.dumps(row) + "\n")


orders, payments = [], []
second = 0
for number in range(1001, 1041):
    order = f"A-{number}"
    second += 30 + below(8 * 60)
    orders.append(
        (
            second,
            {
                "order": order,
                "customer": CUSTOMERS[below(len(CUSTOMERS))],
                "amount": 5 * (1 + below(60)),
                "placed": at(second),
            },
        )
    )
    if number % 9 == 0:
        continue  # never paid
    if number % 10 == 0:
        delays = [3600 if number == 1020 else 3601 + below(3600)]  # just in time, or too late
    else:
        delays = [20 + below(50 * 60)]
    if number == 1013:
        delays.append(delays[0] + 90)  # paid twice
    for delay in delays:
        payments.append(
            (second + delay, {"order": order, "method": METHODS[below(3)], "paid": at(second + delay)})
        )
payments.append((7000, {"order": "A-9999", "method": "card", "paid": at(7000)}))

write("orders.jsonl", orders)
write("payments.jsonl", payments)
