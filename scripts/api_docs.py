"""Writes the API reference, docs/api/*.md, from the protos; --check fails if it is out of date.

One page a service and one for the shared vocabulary. All text is the protos' own comments.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[1]
PROTOS = ROOT / "protos"
PAGES = ROOT / "docs" / "api"
# Numbers of fields in descriptor.proto, which make the paths of its source locations.
_PACKAGE, _FILE_MESSAGES, _FILE_ENUMS, _FILE_SERVICES, _FIELDS, _VALUES, _METHODS = 2, 4, 5, 6, 2, 2, 2
_SCALARS = {number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()}


@dataclass(frozen=True)
class Source:
    """A proto file and the comments in it, by path."""

    file: FileDescriptorProto
    comments: dict[tuple[int, ...], str]

    @property
    def page(self) -> str:
        """Name of the page that it belongs to: the folder of its API."""
        return self.file.package.split(".")[1]

    def comment(self, *path: int) -> str:
        """Return the comment before an element, as one line."""
        return self.comments.get(path, "")


def read_protos(folder: Path) -> list[Source]:
    """Compile all protos below a folder and return them in order of their names."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "set.binpb"
        code = protoc.main(["protoc", f"-I{folder}", f"-I{_well_known()}", "--include_source_info", f"--descriptor_set_out={out}", *names])
        if code:
            sys.exit(code)
        found = FileDescriptorSet.FromString(out.read_bytes())
    return [Source(file, _comments(file)) for file in found.file]


def _well_known() -> Path:
    return Path(protoc.__file__).parent / "_proto"


def _comments(file: FileDescriptorProto) -> dict[tuple[int, ...], str]:
    return {tuple(item.path): " ".join(item.leading_comments.split()) for item in file.source_code_info.location if item.leading_comments}


def page_names(sources: Sequence[Source]) -> list[str]:
    """Pages in the order of the index: services first, the shared vocabulary last."""
    return sorted({source.page for source in sources}, key=lambda name: (name == "types", name))


def render_page(name: str, sources: Sequence[Source]) -> str:
    """Return one page as Markdown."""
    own = [source for source in sources if source.page == name]
    package = own[0].file.package
    speakers = [source for source in own if source.file.service] or own
    about = " ".join(source.comment(_PACKAGE) for source in speakers)
    lines = [f"# `{package}`", "", "<!-- Written by `make docs` from the protos; change those. -->", "", about, ""]
    services = [block for source in own for index, item in enumerate(source.file.service) for block in _service(source, index, item)]
    enums = [block for source in own for index, item in enumerate(source.file.enum_type) for block in _enum(source, index, item)]
    messages = [block for source in own for index, item in enumerate(source.file.message_type) for block in _message(source, index, item)]
    lines += [*services, "## Messages", "", *messages, "## Enums", "", *enums]
    return "\n".join(lines).rstrip() + "\n"


def _service(source: Source, index: int, service: ServiceDescriptorProto) -> Iterator[str]:
    yield from (f"## {service.name}", "", source.comment(_FILE_SERVICES, index), "")
    for number, method in enumerate(service.method):
        answer = ("a stream of " if method.server_streaming else "") + _link(source, method.output_type)
        yield from (f"### {method.name}", "", f"{_link(source, method.input_type)} → {answer}", "")
        yield from (source.comment(_FILE_SERVICES, index, _METHODS, number), "")


def _message(source: Source, index: int, message: DescriptorProto) -> Iterator[str]:
    yield from (f"### {message.name}", "", source.comment(_FILE_MESSAGES, index), "")
    if not message.field:
        return
    yield from ("| field | number | type | meaning |", "|---|---|---|---|")
    for number, field in enumerate(message.field):
        meaning = source.comment(_FILE_MESSAGES, index, _FIELDS, number)
        yield f"| `{field.name}` | {field.number} | {_type(source, message, field)} | {_cell(meaning)} |"
    yield ""


def _enum(source: Source, index: int, enum: EnumDescriptorProto) -> Iterator[str]:
    yield from (f"### {enum.name}", "", source.comment(_FILE_ENUMS, index), "", "| value | number | meaning |", "|---|---|---|")
    for number, value in enumerate(enum.value):
        yield f"| `{value.name}` | {value.number} | {_cell(source.comment(_FILE_ENUMS, index, _VALUES, number))} |"
    yield ""


def _type(source: Source, message: DescriptorProto, field: FieldDescriptorProto) -> str:
    entry = next((item for item in message.nested_type if item.options.map_entry and field.type_name.endswith(f".{item.name}")), None)
    if entry:
        key, value = entry.field
        return f"map of {_type(source, entry, key)} to {_type(source, entry, value)}"
    name = _link(source, field.type_name) if field.type_name else _SCALARS[field.type]
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {name}"
    if field.proto3_optional:
        return f"optional {name}"
    if field.HasField("oneof_index"):
        return f"{name}, one of `{message.oneof_decl[field.oneof_index].name}`"
    return name


def _link(source: Source, full_name: str) -> str:
    """Link to where a type is described; the well-known types are Google's and only named."""
    package, _, name = full_name.removeprefix(".").rpartition(".")
    if not package.startswith("adaexplore."):
        return f"`{package}.{name}`"
    page = package.split(".")[1]
    return f"[{name}]({'' if page == source.page else f'{page}.md'}#{name.lower()})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def render_index(sources: Sequence[Source]) -> str:
    """Return the page that lists the others."""
    lines = ["# API reference", "", "<!-- Written by `make docs` from the protos; change those. -->", ""]
    lines += [
        "Generated from [the protos](../../protos/adaexplore). [Clients in four languages](../../examples/clients) show how to call them.",
        "",
    ]
    lines += ["| package | what |", "|---|---|"]
    for name in page_names(sources):
        own = [source for source in sources if source.page == name]
        speaker = next((source for source in own if source.file.service), None)
        about = speaker.comment(_PACKAGE) if speaker else "Vocabulary that the services share."
        lines.append(f"| [`{own[0].file.package}`]({name}.md) | {_cell(about)} |")
    return "\n".join(lines) + "\n"


def render(sources: Sequence[Source]) -> dict[str, str]:
    """Return every page by its file name."""
    return {"README.md": render_index(sources)} | {f"{name}.md": render_page(name, sources) for name in page_names(sources)}


def main(argv: Sequence[str]) -> int:
    """Write the pages, or with `--check` compare them with those on disk; return the exit code."""
    pages = render(read_protos(PROTOS))
    if "--check" not in argv:
        PAGES.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            (PAGES / name).write_text(text, encoding="utf-8")
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")}
    wrong = sorted(name for name in pages.keys() | on_disk.keys() if pages.get(name) != on_disk.get(name))
    for name in wrong:
        print(f"stale: docs/api/{name} ({'run make docs' if name in pages else 'no proto describes it; delete it'})")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
