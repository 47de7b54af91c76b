#!/usr/bin/env python3
"""Writes the manual page of the JSON that the commands print, from report/schema.def: make_json_page.py VERSION FILE."""
import re
import sys

from make_pages import DATE, HERE, TEXT, roff, rows, write

OBJECT = re.compile(rf"^OBJECT\((\w+), [^\"]*{TEXT}\)\n(.*?)^END", re.M | re.S)
FIELD = re.compile(rf"([A-Z_]+)\({TEXT}, ((?:\(.*?\)|[^()\"])*){TEXT}((?:, *\w+(?:\(\S+\))?)*)\)|"
                   r"(?:INSIDE|WITHIN|POINTED|LAYERS)\(NULL, (?:\w.*, )?(\w+), \"\"")
SHAPES = {"LIST": "list of {}", "ARRAY": "list of {}", "MAP": "{} by name", "INSIDE": "{}", "WITHIN": "{}", "POINTED": "{}",
          "STACK": "list of frame",
          "CATEGORIES": "bytes by category", "ALL_CATEGORIES": "bytes by category", "NONZERO_CATEGORIES": "bytes by category",
          "CATEGORY_CHANGES": "change in bytes by category", "PHASES": "bytes by phase", "LAYERS": "count by layer",
          "COLUMNS": "list of bytes by category", "NUMBERS": "list of {}", "WORDS": "list of words", "TEXTS": "list of texts",
          "NAME": "text or null", "WORD": "word", "FIELD": "{}", "CHANGE": "change in {}"}
UNITS = {"NONE": "", "ID": "number", "LAST_EVENT": "event", "NUMBERS": "number"}
HEAD = """.Dd {date}
.Dt VRAMTRACE-JSON 5
.Os vramtrace {version}
.Sh NAME
.Nm vramtrace-json
.Nd JSON that vramtrace prints
.Sh DESCRIPTION
With
.Fl -json ,
commands print one object, whose
.Va format
names it and its version.
Later versions add fields and never change one.
Numbers are exact integers: bytes, and nanoseconds since recording began.
Text is valid UTF-8: other bytes become U+FFFD.
Events, devices and other items are numbered from 0, steps from 1; step 0 is before the first.
The categories of a moment sum to its
.Va driver_bytes .
.Sh DOCUMENTS
.Bl -tag -width "vramtrace.job_oom_summary/2" -compact
"""


def objects():
    """{name of an object: (what it is, its fields)} in the order of the table."""
    text = re.sub(r",\n +", ", ", (HERE.parent / "report" / "schema.def").read_text())
    return {name: (about, [field.groups() for field in FIELD.finditer(body)]) for name, about, body in OBJECT.findall(text)}


def others(fields):
    """The objects that the fields refer to."""
    return [words.rstrip(", ").split(", ")[-1] if kind else inlined for kind, _, words, _, _, inlined in fields
            if inlined or "{}" in SHAPES[kind] and kind not in ("FIELD", "NUMBERS", "CHANGE")] + [
                "frame" for kind, *_ in fields if kind == "STACK"]


def shape(kind, words, conditions):
    """What a field holds, and when it is not there."""
    last = words.rstrip(", ").split(", ")[-1]
    found = SHAPES[kind].format(UNITS.get(last, last.lower() if last.isupper() else last))
    return ", ".join(filter(None, [found, "OR_NULL" in conditions and "or null",
                                   re.search(r"\bIF\(", conditions) and "if any"])).replace(", or", " or")


def described(name, about, fields):
    yield f".Ss {name}\n{roff(about)}\n.Bl -tag -width Ds -compact\n"
    for kind, field, words, text, conditions, inlined in fields:
        if inlined:
            yield ".It a count by layer\n" if inlined == "layers" else f".It the fields of {inlined}\n"
        else:
            held = shape(kind, words, conditions)
            yield f".It Va {field}" + (f" Pq {held}" if held else "") + (f"\n{roff(text)}\n" if text else "\n")
    yield ".El\n"


def page(version):
    known = objects()
    documents = rows("report/schema.c", rf"\{{{TEXT},\s+object_(\w+)\}}")
    needed, todo = set(), [root for _, root in documents] + ["event"]
    while todo:
        name = todo.pop()
        if name in known and name not in needed:
            needed.add(name)
            todo += others(known[name][1])
    yield HEAD.format(date=DATE, version=version)
    yield from (f".It {name}\n{root}\n" for name, root in documents)
    yield ".It \\(em\nevent: each line of\n.Ql vramtrace info \\-\\-events \\-\\-json\n.El\n.Sh OBJECTS\n"
    for name in known:
        if name in needed:
            yield from described(name, *known[name])
    yield ".Sh SEE ALSO\n.Xr vramtrace 1\n"


if __name__ == "__main__":
    write(sys.argv[2], "".join(page(sys.argv[1])))
