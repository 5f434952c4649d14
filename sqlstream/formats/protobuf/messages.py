"""Classes of messages, made of descriptors that are data: nothing is generated, and no two tables share a pool."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: What a message of a well-known type comes with, and every file may import.
_WELL_KNOWN = ("timestamp", "duration", "wrappers", "any", "struct", "empty", "field_mask")


class DescriptorError(ValueError):
    """Descriptors that can't be used, or a table that is not of its message; the message is for the user."""


def library() -> Any:
    """`google.protobuf`. Raises DiagnosticError (ENV021) if it is not installed."""
    try:
        import google.protobuf.descriptor_pb2
        import google.protobuf.descriptor_pool
        import google.protobuf.message
        import google.protobuf.message_factory
    except ImportError:
        raise DiagnosticError(
            Diagnostic(
                "ENV021",
                "the library of Protocol Buffers is not installed",
                help="pip install 'sqlstream-spark[protobuf]'",
            )
        ) from None
    return google.protobuf


def message_class(files: Iterable[bytes], name: str) -> Any:
    """The class of a message; `files` are serialised FileDescriptorProtos, imported ones first. Raises DescriptorError."""
    serialised = list(files)
    pool = _pool(serialised)
    try:
        return library().message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except KeyError:
        protos = [library().descriptor_pb2.FileDescriptorProto.FromString(file) for file in serialised]
        known = [f"{p.package}.{m.name}".lstrip(".") for p in protos for m in p.message_type]
        raise DescriptorError(f"no message is called {name}, but {', '.join(known[-5:])}") from None


def message_at(files: Iterable[bytes], places: Iterable[int]) -> Any:
    """The class of the message at these places: of the last file, and then inside each message. Raises DescriptorError."""
    serialised = list(files)
    pool = _pool(serialised)
    proto = library().descriptor_pb2.FileDescriptorProto.FromString(serialised[-1])
    name, inside = proto.package, proto.message_type
    for place in places:
        if not 0 <= place < len(inside):
            raise DescriptorError(f"the schema has no message of number {place}")
        name, inside = (
            f"{name}.{inside[place].name}" if name else inside[place].name,
            inside[place].nested_type,
        )
    return library().message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def _pool(files: Iterable[bytes]) -> Any:
    pb = library()
    pool = pb.descriptor_pool.DescriptorPool()
    known: set[str] = set()
    waiting = []
    for serialised in files:
        try:
            waiting.append(pb.descriptor_pb2.FileDescriptorProto.FromString(serialised))
        except pb.message.DecodeError:
            raise DescriptorError("it has no descriptors of Protocol Buffers") from None
    given = {file.name for file in waiting}
    for file in waiting:
        for imported in file.dependency:
            if imported not in given and imported not in known:
                _add_well_known(pool, imported)
                known.add(imported)
        try:
            pool.Add(file)
        except TypeError as error:
            raise DescriptorError(f"{file.name}: {error}") from None
    return pool


def _add_well_known(pool: Any, name: str) -> None:
    import importlib

    short = name.removeprefix("google/protobuf/").removesuffix(".proto")
    if short not in _WELL_KNOWN or not name.startswith("google/protobuf/"):
        raise DescriptorError(
            f"{name} is imported and not there; write the descriptors with protoc --include_imports"
        )
    module = importlib.import_module(f"google.protobuf.{short}_pb2")
    pool.Add(library().descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb))


def descriptor_set(path: str) -> list[bytes]:
    """The files in what `protoc --descriptor_set_out` wrote. Raises DiagnosticError (OPT003, ENV005)."""
    pb = library()
    try:
        data = Path(path.removeprefix("file://")).read_bytes()
    except OSError as error:
        raise DiagnosticError(
            Diagnostic("ENV005", f"{path} can't be read", notes=(error.strerror or str(error),))
        ) from None
    try:
        found = pb.descriptor_pb2.FileDescriptorSet.FromString(data)
    except pb.message.DecodeError:
        found = None
    if found is None or not found.file:
        raise DiagnosticError(
            Diagnostic(
                "OPT003",
                f"{path} is no set of descriptors",
                help=f"protoc --include_imports --descriptor_set_out={path} your.proto",
            )
        )
    return [file.SerializeToString() for file in found.file]
