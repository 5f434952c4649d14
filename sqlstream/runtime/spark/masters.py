"""Spark's masters: which there are, where they are, and how many cores a local one has."""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Mapping
from pathlib import Path

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, did_you_mean

#: How long a standalone master may take to let us connect, and then to answer, seconds.
PATIENCE_S = 5.0
ANSWER_S = 10.0

_STREAM_REQUEST = 6
_LONGEST_ANSWER = 1 << 20
_TLS_ALERT = b"\x15\x03"
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:\s*,\s*\d+)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
_STANDALONE = re.compile(r"spark://([^/,\s]+:\d+(?:,[^/,\s]+:\d+)*)")
_OTHERS = re.compile(r"yarn|k8s://\S+")
_CLASSIC = "local, local[4], local[*], spark://host:7077, yarn or k8s://…"


def is_local(master: str) -> bool:
    """Whether all tasks of this master run on this machine."""
    return master == "local" or master.startswith(("local[", "local-cluster["))


def check_master(master: str) -> None:
    """Raise DiagnosticError (ENV002, exit code 2) for something that is no master of Spark's."""
    if master.startswith("sc://"):
        raise DiagnosticError(
            Diagnostic(
                "ENV002",
                f"the master {master} is a Spark Connect server, and sqlstream can't run on one yet",
                help=f"give a classic master: {_CLASSIC}",
            ),
            exit_code=2,
        )
    found = _LOCAL.fullmatch(master)
    known = any(p.fullmatch(master) for p in (_LOCAL_CLUSTER, _STANDALONE, _OTHERS))
    if known or (found is not None and found[1] != "0"):
        return
    near = did_you_mean(master, ("local", "local[*]", "yarn"))
    if master.startswith("spark://"):
        near = "spark://host:7077"
    raise DiagnosticError(
        Diagnostic(
            "ENV002",
            f"Spark has no master '{master}'",
            notes=(f"masters are {_CLASSIC}",),
            help=f"did you mean --master '{near}'?" if near else "leave --master out to run on this machine",
        ),
        exit_code=2,
    )


def check_answers(master: str, patience_s: float = PATIENCE_S, answer_s: float = ANSWER_S) -> None:
    """Raise DiagnosticError (ENV003) if nothing listens where a standalone master should be, or something else does.

    Spark itself tries for more than a minute, and says nothing meanwhile. One of several masters is enough.
    """
    if master == "yarn" and not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & os.environ.keys():
        raise DiagnosticError(
            Diagnostic(
                "ENV003",
                "where YARN is, Spark reads in the folder that HADOOP_CONF_DIR or YARN_CONF_DIR names, and neither is set",
                help="export HADOOP_CONF_DIR=/etc/hadoop/conf, or leave --master out to run on this machine",
            )
        )
    found = _STANDALONE.fullmatch(master)
    if found is None:
        return
    reasons = []
    for address in found[1].split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), patience_s) as connection:
                strange = _no_master(connection, answer_s)
        except (OSError, OverflowError) as error:
            strange = getattr(error, "strerror", None) or str(error)
        if strange is None:
            return
        reasons.append(f"{address}: {strange}")
    raise DiagnosticError(
        Diagnostic(
            "ENV003",
            f"no Spark master answers at {master}",
            notes=tuple(reasons),
            help="start it, or give another --master; without one Spark runs in this machine",
        )
    )


def _no_master(connection: socket.socket, patience_s: float) -> str | None:
    """Why what is at the other end is no master of Spark's; None if it is one, or may be.

    It gets a request for a file that it does not have, which Spark's network layer answers in any version, and logs
    nothing of (`StreamRequest` and `StreamFailure` in org.apache.spark.network.protocol). One that wants TLS hangs up,
    or says so.
    """
    name = b"files/sqlstream"
    request = struct.pack(">qbi", 13 + len(name), _STREAM_REQUEST, len(name)) + name
    answer = b""
    connection.settimeout(patience_s)
    try:
        connection.sendall(request)
        while len(answer) < 9:
            part = connection.recv(4096)
            if not part:
                return None
            answer += part
    except TimeoutError:
        return f"something takes connections there, and has not answered for {patience_s:g} s"
    except OSError:
        return None
    length, _ = struct.unpack(">qb", answer[:9])
    if 9 <= length < _LONGEST_ANSWER or answer.startswith(_TLS_ALERT):
        return None
    if answer.startswith(b"HTTP/"):
        return "a web server is there; the port of a master is usually 7077"
    return "something else than Spark is there"


def cores(master: str, conf: Mapping[str, str]) -> int | None:
    """How many tasks run at the same time on a local master, as Spark counts; None: only Spark knows.

    >>> cores("local[3]", {}), cores("local", {}), cores("local-cluster[2,3,1024]", {}), cores("yarn", {})
    (3, 1, 6, None)
    >>> cores("local[3]", {"spark.default.parallelism": "5"})
    5
    """
    configured = conf.get("spark.default.parallelism", "")
    if configured.isdigit() and int(configured):
        return int(configured)
    cluster = _LOCAL_CLUSTER.fullmatch(master)
    if cluster is not None:
        return int(cluster[1]) * int(cluster[2])
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    number = found[1] or "1"
    return _machine_cores() if number == "*" else int(number)


def _machine_cores(root: Path = Path("/")) -> int:
    """The cores that this process may use, as Java counts them: its affinity, and its control group's quota."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = (root / "sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return count
    return count if quota == "max" else max(1, min(count, -(-int(quota) // int(period))))
