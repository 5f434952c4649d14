"""The journal of a state directory: plans, manifests and physical plans, read and written with checks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from sqlstream.storage.checked_json import DamagedFileError
from sqlstream.storage.manifest import EpochPlan, Manifest
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

_PLAN = ".plan.json"
_MANIFEST = ".manifest.json"


def plan_name(epoch: int) -> str:
    """The name of an epoch's plan.

    >>> plan_name(42)
    'epochs/000042.plan.json'
    """
    return f"epochs/{epoch:06d}{_PLAN}"


def manifest_name(epoch: int) -> str:
    """The name of an epoch's manifest."""
    return f"epochs/{epoch:06d}{_MANIFEST}"


def physical_plan_name(digest: str) -> str:
    """The name of a physical plan."""
    return f"plans/{digest}.json"


def sql_name(digest: str) -> str:
    """The name of a job's SQL."""
    return f"plans/{digest}.sql"


def _replays_name(epoch: int) -> str:
    return f"epochs/{epoch:06d}.replays"


def digest_of(content: bytes) -> str:
    """The name of a physical plan by its content."""
    return hashlib.sha256(content).hexdigest()[:32]


def damaged(error: DamagedFileError, store: CheckpointStore) -> DiagnosticError:
    """The message for a damaged file of the journal that can't be done without."""
    return DiagnosticError(
        Diagnostic(
            "STA001",
            f"the checkpoint file {store.path(error.path)} {error.what}",
            notes=("nothing was computed from it, and nothing was changed",),
            help="restore this file from a copy of the state directory, "
            "or start over with another --state-dir",
        ),
        exit_code=4,
    )


class Journal:
    """Reads and writes the journal in `store`. Methods raise DiagnosticError (STA001) for damaged files."""

    def __init__(self, store: CheckpointStore) -> None:
        self.store = store

    def epochs(self) -> tuple[list[int], list[int]]:
        """The numbers of all plans and of all manifests, ascending.

        A list of an object store may lack what was written last, so what comes next is asked for by its name.
        """
        plans, manifests = self.listed()
        if not self.store.is_local:
            following = manifests[-1] + 1 if manifests else 1
            while self.store.exists(manifest_name(following)):
                manifests.append(following)
                following += 1
            if following not in plans and self.store.exists(plan_name(following)):
                plans = sorted([*plans, following])
        return plans, manifests

    def listed(self) -> tuple[list[int], list[int]]:
        """The same by one request: the last ones may be missing."""
        plans, manifests = [], []
        for name in self.store.list("epochs"):
            number = name.removeprefix("epochs/").split(".")[0]
            if not number.isdigit():
                continue
            if name.endswith(_PLAN):
                plans.append(int(number))
            elif name.endswith(_MANIFEST):
                manifests.append(int(number))
        return sorted(plans), sorted(manifests)

    def begun(self) -> int | None:
        """The first epoch after the last manifest that has a plan; None if there is none."""
        plans, manifests = self.epochs()
        last = manifests[-1] if manifests else 0
        return next((epoch for epoch in plans if epoch > last), None)

    def manifest(self, epoch: int) -> Manifest:
        """The manifest of an epoch. Raises FileNotFoundError if there is none."""
        name = manifest_name(epoch)
        try:
            found = Manifest.from_bytes(name, self.store.get(name))
        except DamagedFileError as error:
            raise damaged(error, self.store) from None
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(DamagedFileError(name, f"can't be read: {error}"), self.store) from None
        if found.epoch != epoch:
            raise damaged(DamagedFileError(name, f"is the manifest of epoch {found.epoch}"), self.store)
        return found

    def plan(self, epoch: int) -> EpochPlan | None:
        """The plan of an epoch, or None if the file is damaged (then the epoch must be given up).

        Raises FileNotFoundError if there is none.
        """
        name = plan_name(epoch)
        try:
            found = EpochPlan.from_bytes(name, self.store.get(name))
        except (DamagedFileError, KeyError, TypeError, ValueError):
            return None
        return found if found.epoch == epoch else None

    def create_plan(self, plan: EpochPlan) -> bool:
        """Write a plan; False if the epoch has one already."""
        return self._create(plan_name(plan.epoch), plan.to_bytes())

    def publish(self, manifest: Manifest) -> bool:
        """Publish a manifest; False if the epoch has one already."""
        return self._create(manifest_name(manifest.epoch), manifest.to_bytes())

    def replays(self, epoch: int) -> int:
        """How many runs have begun to replay an epoch and were ended before they could say how it went."""
        try:
            return len(self.store.get(_replays_name(epoch)))
        except FileNotFoundError:
            return 0

    def note_replay(self, epoch: int) -> None:
        """Note that a replay of an epoch begins; `forget_replays` when its end is known."""
        self.store.put(_replays_name(epoch), b"." * (self.replays(epoch) + 1))

    def forget_replays(self, epoch: int) -> None:
        """Forget the replays of an epoch."""
        self.store.delete(_replays_name(epoch))

    def _create(self, name: str, content: bytes) -> bool:
        try:
            self.store.put_exclusive(name, content)
        except FileExistsError:
            return False
        return True

    def put_physical_plan(self, content: bytes) -> str:
        """Keep a physical plan under its digest; returns the digest."""
        return self._keep(physical_plan_name, content)

    def put_sql(self, text: str) -> str:
        """Keep the SQL of a job, without secrets, under its digest; returns the digest."""
        return self._keep(sql_name, text.encode())

    def sql(self, digest: str) -> str:
        """The SQL of a job that is kept."""
        return self._kept(sql_name, digest).decode()

    def physical_plan(self, digest: str) -> bytes:
        """A kept physical plan."""
        return self._kept(physical_plan_name, digest)

    def only_program(self) -> tuple[bytes | None, str | None]:
        """The physical plan and the SQL that are kept, where no manifest names any yet: None if there is not one of each."""
        names = self.store.list("plans")
        plans, texts = ([Path(n).stem for n in names if n.endswith(end)] for end in (".json", ".sql"))
        plan = self.physical_plan(plans[0]) if len(plans) == 1 else None
        return plan, self.sql(texts[0]) if len(texts) == 1 else None

    def _keep(self, name_of: Callable[[str], str], content: bytes) -> str:
        digest = digest_of(content)
        name = name_of(digest)
        # A damaged one would be named by all that comes after it.
        if self.store.size(name) != len(content) or self.store.get(name) != content:
            self.store.put(name, content)
        return digest

    def _kept(self, name_of: Callable[[str], str], digest: str) -> bytes:
        name = name_of(digest)
        try:
            content = self.store.get(name)
        except FileNotFoundError:
            raise damaged(DamagedFileError(name, "is missing"), self.store) from None
        if digest_of(content) != digest:
            raise damaged(DamagedFileError(name, "has another content than its name says"), self.store)
        return content
