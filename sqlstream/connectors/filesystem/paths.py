"""Where the files of a `path` option are: local paths, URIs of object stores, globs, hidden names, and their order."""

from __future__ import annotations

import errno
import functools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from sqlstream_operators.errors import DataError, MachineError, StorePlaceError
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, did_you_mean
from sqlstream_planner.text.masking import secrets_in_url, without_password

if TYPE_CHECKING:
    from pyarrow import fs  # a tenth of a second, which listing local files does not need

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_CREDENTIALS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+://)([^/?#@]*:[^/?#]*)@")
#: The options of a store behind a URI; a `?` without a name and `=` behind it is one of a glob.
_STORE_OPTIONS = re.compile(r"\?[A-Za-z]\w*=.*", re.DOTALL)
_GLOB = re.compile(r"[*?\[{]")
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file as it was listed: `path` is an absolute local path or a URI; size in bytes, times in µs since
    1970.

    `changed_us` is when it or its name changed last (0: not known), `digest` is of its content (`file_version`; "": not
    known). `opening` (`name:password?option=value`) is what of its URI only opens the file and is no part of what it is:
    paths are kept and shown.
    """

    path: str
    size: int
    modified_us: int
    opening: str = field(default="", repr=False, compare=False)
    changed_us: int = 0
    digest: str = ""

    @property
    def location(self) -> str:
        """The path or the URI to open the file with."""
        return joined_location(self.path, self.opening)


def resolve(path: str, base_dir: str) -> str:
    """The absolute local path or the URI that a `path` option means.

    >>> resolve("data/*.json", "/pipelines")
    '/pipelines/data/*.json'
    >>> resolve("file:///tmp/a%20b", "/pipelines"), resolve("s3://bucket/x/?region=y", "/pipelines")
    ('/tmp/a b', 's3://bucket/x?region=y')
    """
    if path.startswith("file:"):
        return os.path.normpath(unquote(re.sub(r"^file:(//[^/]*)?(?=/)", "", path)))
    if _URI.match(path):
        options = _STORE_OPTIONS.search(path)
        place = path if options is None else path[: options.start()]
        return place.rstrip("/") + path[len(place) :]
    return os.path.normpath(Path(base_dir) / Path(path).expanduser())


_UNKNOWN_PARAMETER = re.compile(r"(Unexpected query parameter in \w+ URI): '[^']*'")


def without_credentials(location: str) -> tuple[str, str]:
    """A resolved path without the name and password in its URI, and these.

    >>> without_credentials("s3://key:secret@bucket/x"), without_credentials("hdfs://me@host/x")
    (('s3://bucket/x', 'key:secret'), ('hdfs://me@host/x', ''))
    """
    found = _CREDENTIALS.match(location)
    if found is None:
        return location, ""
    return found[1] + location[found.end() :], found[2]


def split_location(location: str) -> tuple[str, str]:
    """A resolved path without what only opens it, and that (`FileEntry.opening`).

    >>> split_location("s3://key:secret@bucket/x-?.json?region=y")
    ('s3://bucket/x-?.json', 'key:secret?region=y')
    >>> split_location("gs://bucket/x"), split_location("/a/b?c=d"), split_location("hdfs://me@host/x?a=b")
    (('gs://bucket/x', ''), ('/a/b?c=d', ''), ('hdfs://me@host/x?a=b', ''))
    """
    place, login = without_credentials(location)
    options = _STORE_OPTIONS.search(place) if is_object(place) else None
    if options is None:
        return place, login
    return place[: options.start()], login + options[0]


def joined_location(place: str, opening: str) -> str:
    """What `split_location` has split.

    >>> joined_location("s3://bucket/x", "key:secret?region=y")
    's3://key:secret@bucket/x?region=y'
    """
    login, mark, options = opening.partition("?")
    return (place.replace("://", f"://{login}@", 1) if login else place) + mark + options


def is_object(location: str) -> bool:
    """Whether a resolved path is in an object store."""
    if is_local(location):
        return False
    from sqlstream_operators.state.object_clients import SCHEMES

    return location.partition("://")[0] in SCHEMES


def is_local(path: str) -> bool:
    """Whether a resolved path is on this machine's file system."""
    return _URI.match(path) is None


def open_filesystem(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a resolved path, and the path in it. Raises DataError where there is none for the
    URI.
    """
    from pyarrow import fs

    if is_local(path):
        return fs.LocalFileSystem(), path
    if is_object(path):
        try:
            return _in_store(path)
        except StorePlaceError as error:
            raise DataError(str(error)) from None
    try:
        filesystem, inside = fs.FileSystem.from_uri(path)
    except (OSError, ValueError) as error:
        public, credentials = without_credentials(path)
        public = without_password(public)
        # A value with an & in it ends there, and the rest of it would be reported as a parameter.
        shown = _UNKNOWN_PARAMETER.sub(r"\1", str(error).replace(path, public))
        if credentials:
            shown = shown.replace(credentials.partition(":")[2], "***")
        raise DataError(f"{public}: can't be opened: {shown}") from None
    return filesystem, inside


def _in_store(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of the bucket of a URI, and the path in it, which begins with the bucket. Raises StorePlaceError."""
    place, opening = split_location(path)
    check_login(place)
    scheme, _, inside = place.partition("://")
    bucket = inside.partition("/")[0]
    return _bucket(joined_location(f"{scheme}://{bucket}", opening), bucket), inside


def check_login(place: str) -> None:
    """Raise StorePlaceError if the place of an object has a secret that was not taken for one (`split_location`)."""
    if secrets_in_url(place):
        raise StorePlaceError(
            f"{without_password(place)} can't be opened: the secret before the @ has a /, a ? or a # in it",
            "write %2F, %3F or %23 for it",
        )


@functools.lru_cache(maxsize=16)
def _bucket(uri: str, bucket: str) -> fs.FileSystem:
    """The client of a bucket: it keeps its connections, so a process has one."""
    from sqlstream.connectors.filesystem.object_filesystem import object_filesystem

    return object_filesystem(uri, bucket)


def natural_key(path: str) -> tuple[tuple[tuple[int, int | str], ...], str]:
    """Sorts names with numbers by the numbers' values.

    >>> sorted(["b1", "a10", "a9", "a"], key=natural_key)
    ['a', 'a9', 'a10', 'b1']
    """
    parts = _DIGITS.split(path)
    key: list[tuple[int, int | str]] = []
    for index, part in enumerate(parts):
        if part:
            key.append((0, int(part)) if index % 2 else (1, part))
    return tuple(key), path


def is_hidden(relative: str) -> bool:
    """Whether any folder or name of a relative path starts with `.` or `_`.

    >>> is_hidden("a/_tmp/b.json"), is_hidden("a/b_.json")
    (True, False)
    """
    return any(part.startswith((".", "_")) for part in relative.split("/"))


def list_files(location: str) -> list[FileEntry]:
    """All visible files that a resolved path means: itself, everything under a directory, or a glob's
    matches.

    In natural order of their paths. A file that is named exactly is never hidden. Raises DiagnosticError (DAT004) if the
    path, or the folder that a glob starts in, does not exist; MachineError if a folder can't be read.
    """
    if is_local(location):
        return _listed(None, location, location)
    filesystem, inside = open_filesystem(location)
    place, opening = split_location(location)
    try:
        return [replace(entry, opening=opening) for entry in _listed(filesystem, inside, place)]
    except StorePlaceError as error:
        raise DiagnosticError(
            Diagnostic("DAT004", f"path '{place}' does not exist: {error}", help=error.help or None)
        ) from None


def _listed(filesystem: fs.FileSystem | None, inside: str, location: str) -> list[FileEntry]:
    """The files of a path in a file system; None is this machine's."""
    prefix = location[: len(location) - len(inside)] if location.endswith(inside) else ""
    kind = _kind(filesystem, inside)
    if kind == "file":
        if filesystem is None:
            return [local_entry(location, Path(location).stat())]
        info = filesystem.get_file_info(inside)
        return [FileEntry(location, info.size, _modified_us(info))]
    if kind == "folder":
        return _sorted(_walk(filesystem, inside, prefix))
    glob = _GLOB.search(inside)
    if glob is None:
        raise _no_such_path(inside, location, f"path '{location}' does not exist", filesystem)
    folder = inside[: glob.start()].rpartition("/")[0] or "/"
    if _kind(filesystem, folder) != "folder":
        message = f"path '{location}' does not exist: there is no folder '{folder}'"
        raise _no_such_path(folder, prefix + folder, message, filesystem)
    pattern = glob_pattern(inside[len(folder.rstrip("/")) + 1 :])
    start = len(prefix) + len(folder.rstrip("/")) + 1
    return _sorted(
        entry for entry in _walk(filesystem, folder, prefix) if _matches(pattern, entry.path[start:])
    )


def _kind(filesystem: fs.FileSystem | None, path: str) -> Literal["file", "folder", "other"]:
    """What is at a path, `other` if that is nothing. Raises OSError where that can't be found out."""
    if filesystem is None:
        there = Path(path)
        return "folder" if there.is_dir() else "file" if there.is_file() else "other"
    from pyarrow import fs

    kinds: dict[Any, Literal["file", "folder"]] = {fs.FileType.File: "file", fs.FileType.Directory: "folder"}
    return kinds.get(filesystem.get_file_info(path).type, "other")


def would_list(location: str, file: str) -> bool:
    """Whether `list_files` of a resolved local path would find a local file, were it there.

    >>> would_list("/a/*/in", "/a/b/in/c.json"), would_list("/a", "/a/_b/c.json"), would_list("/a", "/ab/c.json")
    (True, False, False)
    """
    found = _GLOB.search(location)
    fixed = location
    if found is not None and not Path(location).exists():
        fixed = location[: found.start()].rpartition("/")[0] or "/"
    folder = os.path.realpath(fixed)
    file = os.path.realpath(file)
    if not file.startswith(folder.rstrip("/") + "/"):
        return file == folder
    relative = file[len(folder.rstrip("/")) + 1 :]
    if is_hidden(relative):
        return False
    return fixed == location or _matches(glob_pattern(location[len(fixed.rstrip("/")) + 1 :]), relative)


def glob_pattern(glob: str) -> re.Pattern[str]:
    """A glob as a regular expression: `*` and `?` stay in a folder, `**` crosses folders, `[…]`, `{a,b}`.

    >>> bool(glob_pattern("d*/*.{csv,json}").fullmatch("d1/x.json")), bool(glob_pattern("*").fullmatch("a/b"))
    (True, False)
    """
    out: list[str] = []
    position = depth = 0
    while position < len(glob):
        char = glob[position]
        position += 1
        if char == "*":
            if glob[position : position + 1] == "*":
                position += 1
                if glob[position : position + 1] == "/":
                    position += 1
                    out.append("(?:.*/)?")
                else:
                    out.append(".*")
            else:
                out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and "]" in glob[position + 1 :]:
            end = glob.index("]", position + 1)
            inner = glob[position:end].replace("\\", "\\\\")
            out.append(f"[^{inner[1:]}]" if inner[0] in "!^" else f"[{inner}]")
            position = end + 1
        elif char == "{" and "}" in glob[position:]:
            depth += 1
            out.append("(?:")
        elif char == "}" and depth:
            depth -= 1
            out.append(")")
        elif char == "," and depth:
            out.append("|")
        else:
            out.append(re.escape(char))
    return re.compile("".join(out), re.DOTALL)


def _matches(pattern: re.Pattern[str], relative: str) -> bool:
    """Whether a glob matches a file or one of the folders that it is in."""
    parts = relative.split("/")
    return any(pattern.fullmatch("/".join(parts[: n + 1])) for n in reversed(range(len(parts))))


def hidden_names(location: str, most: int = 1000) -> list[str]:
    """Names under the folder of a resolved path that are passed over because they start with `.` or `_`."""
    from pyarrow import fs

    filesystem, inside = open_filesystem(location)
    found = _GLOB.search(inside)
    folder = inside if found is None else inside[: found.start()].rpartition("/")[0] or "/"
    if filesystem.get_file_info(folder).type != fs.FileType.Directory:
        return []
    start = len(folder.rstrip("/")) + 1
    names = [
        info.path[start:]
        for info in filesystem.get_file_info(fs.FileSelector(folder, recursive=True))
        if info.type == fs.FileType.File and is_hidden(info.path[start:])
    ]
    return sorted(names)[:most]


def _sorted(entries: Iterator[FileEntry]) -> list[FileEntry]:
    return sorted(entries, key=lambda entry: natural_key(entry.path))


def local_entry(path: str, status: os.stat_result) -> FileEntry:
    """A local file with its size and times."""
    return FileEntry(path, status.st_size, status.st_mtime_ns // 1000, changed_us=status.st_ctime_ns // 1000)


def _no_such_path(
    inside: str, location: str, message: str, filesystem: fs.FileSystem | None
) -> DiagnosticError:
    """The error for a path that is not there, with what is there where it stops."""
    from pyarrow import fs

    filesystem = filesystem or fs.LocalFileSystem()
    prefix = location[: len(location) - len(inside)] if location.endswith(inside) else ""
    there, missing = inside.rpartition("/")[0], inside.rpartition("/")[2]
    while there.strip("/") and filesystem.get_file_info(there).type == fs.FileType.NotFound:
        there, missing = there.rpartition("/")[0], there.rpartition("/")[2]
    info = filesystem.get_file_info(there or "/")
    if info.type == fs.FileType.File:
        note, help_ = f"'{prefix}{there}' is a file", None
    elif info.type == fs.FileType.Directory:
        names = sorted(found.base_name for found in filesystem.get_file_info(fs.FileSelector(there or "/")))
        near = did_you_mean(missing, names)
        note = f"in '{prefix}{there or '/'}' there is no '{missing}', but {listed(names)}"
        help_ = f"did you mean '{prefix}{there.rstrip('/')}/{near}'?" if near else None
    else:
        note, help_ = f"there is nothing at '{prefix}{there}' either", None
    return DiagnosticError(Diagnostic("DAT004", message, notes=(note,), help=help_))


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first of some names, quoted, and how many more there are.

    >>> listed(["a", "b", "c"], 2), listed([])
    ("'a', 'b' and 1 more", 'nothing')
    """
    shown = ", ".join(f"'{name}'" for name in names[:most])
    if len(names) > most:
        return f"{shown} and {len(names) - most} more"
    return shown or "nothing"


def _modified_us(info: Any) -> int:
    return int(info.mtime_ns or 0) // 1000


def _walk(filesystem: fs.FileSystem | None, root: str, prefix: str) -> Iterator[FileEntry]:
    if filesystem is None:
        yield from _walk_local(root, set())
        return
    from pyarrow import fs

    start = len(root.rstrip("/")) + 1
    for info in filesystem.get_file_info(fs.FileSelector(root, recursive=True)):
        if info.type == fs.FileType.File and not is_hidden(info.path[start:]):
            yield FileEntry(prefix + info.path, info.size, _modified_us(info))


def _walk_local(folder: str, above: set[tuple[int, int]]) -> Iterator[FileEntry]:
    """Follows links, but not into a folder that it is already in."""
    try:
        status = Path(folder).stat()
        identity = (status.st_dev, status.st_ino)
        if identity in above:
            return
        with os.scandir(folder) as found:
            for item in found:
                if item.name.startswith((".", "_")):
                    continue
                try:
                    if item.is_dir():
                        yield from _walk_local(item.path, above | {identity})
                    elif item.is_file():
                        stat = item.stat()
                        yield local_entry(item.path, stat)
                except FileNotFoundError:  # moved away while we were listing
                    continue
                except OSError as error:
                    if (
                        error.errno != errno.ELOOP
                    ):  # a link to itself is to nothing, as one to what is not there
                        raise
    except PermissionError as error:
        raise MachineError(f"{error.strerror}: {error.filename or folder}") from error
