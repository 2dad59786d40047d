#!/usr/bin/env python3
"""Makes clicks.jsonl: made up, the same on every run. Its contents are committed; this is how they came about.

Five users click through a shop on one day. Clicks arrive up to five minutes after they were made, as from phones
on bad networks, so the file is out of order by that much. Three clicks come much later than that.
"""

import json
import random
from datetime import datetime, timedelta, timezone
from pathlib import Path

PAGES = ["/", "/lamps", "/chairs", "/basket", "/checkout"]
MORNING = datetime(2026, 3, 2, 8, 0, tzinfo=timezone.utc)
DELAY = 5 * 60  # seconds, at most: `out_of_order` in job.yaml
LATE = {40: 80, 60: 80, 80: 80}  # the click of this number arrives so many clicks after it was due

# Only random() gives the same numbers in every version of Python.
draw = random.Random(2026).random


def below(n):
    return int(draw() * n)


clicks = []
for user in ["ada", "bob", "cyd", "dan", "eve"]:
    second = below(40 * 60)
    while second < 6 * 60 * 60:
        for _ in range(3 + below(9)):
            clicks.append((second, user, PAGES[below(len(PAGES))]))
            second += 5 + below(7 * 60)
        second += (31 + below(45)) * 60

arriving = sorted(clicks, key=lambda click: click[0] + below(DELAY + 1))
late = [(number + by, arriving[number]) for number, by in LATE.items()]
arriving = [click for number, click in enumerate(arriving) if number not in LATE]
for place, click in late:
    arriving.insert(place, click)

with open(Path(__file__).with_name("clicks.jsonl"), "w") as out:
    for second, user, page in arriving:
        at = (MORNING + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")
        out.write(json.dumps({"user": user, "at": at, "page": page}) + "\n")
