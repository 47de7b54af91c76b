#!/usr/bin/env python3
"""Writes the manual pages: make_pages.py VERSION FOLDER NAME... makes FOLDER/NAME.1 of NAME.mdoc.

A .mdoc file has the text of a page, in the language of mdoc(7). NAME, SYNOPSIS, the lists of commands and options, EXIT STATUS and
SEE ALSO come from the tables that the program is built from; what a .mdoc file has of its own in EXIT STATUS follows the list.
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ANALYZER = HERE.parent
TEXT = r'"((?:[^"\\]|\\.)*)"'
DATE = "November 26, 2026"


def rows(path, pattern):
    """What the rows of a table in C have: the groups of `pattern`, as texts."""
    text = (ANALYZER / path).read_text().replace("\\\n", "")
    return [[re.sub(r"\\(.)", r"\1", part) for part in row] for row in re.findall(pattern, text)]


COMMANDS = {name: (identifier, arguments, summary) for identifier, name, arguments, summary in
            rows("command/command.h", rf"X\((\w+), \w+, {TEXT}, vt_command_\w+, \w+,\s+{TEXT},\s+{TEXT}\)")}
LETTERS = {name: letter for letter, name in rows("command/command.h", rf"X\('(\w)', {TEXT}\)")}
EXITS = rows("base/exit_status.h", rf"X\(\w+, (\d+),\s+{TEXT}\)")
OPTIONS = rows("command/options.def", rf"X\({TEXT}, {TEXT}, .*, ([A-Z |]+), {TEXT}\)\n")
DRYRUN = rows("command/dryrun.def", rf"X\({TEXT}, {TEXT}, \w+, {TEXT}, {TEXT}, {TEXT}\)\n")
SETTINGS = rows("../preload/options.def", rf"X\((\w+), (\w+), \w+, {TEXT}, {TEXT}\)\n")


def roff(text):
    """A text as troff shows it: options keep their dashes, sentences their distance."""
    text = re.sub(r"(?<![\w-])--?(?=\w)", lambda dashes: dashes[0].replace("-", r"\-"), text.replace("\\", r"\e"))
    return re.sub(r"^([.'])", r"\&\1", re.sub(r"([.?]) (?=[A-Z])", r"\1\n", text))


def item(name, value, help_text, variable=None):
    letter = f"Fl {LETTERS[name]} , " if name in LETTERS else ""
    head = f".It {letter}Fl \\-{name[2:]}" + (f" Ar {value}" if value else "") + (f" , Ev {variable}" if variable else "")
    return f"{head}\n{roff(help_text)}\n"


def options_of(command):
    """The list of OPTIONS."""
    if command in ("run", "dryrun"):
        own = DRYRUN if command == "dryrun" else []
        items = [item(name, value, text + (f" (default: {initial})" if initial else "")) for name, value, _, initial, text in own]
        items += [item("--" + name.lower().replace("_", "-"), kind, f"{text} (default: {initial})", f"VRAMTRACE_{name}")
                 for name, kind, initial, text in SETTINGS] + [item("--help", "", "this help")]
    else:
        items = [item(name, value, text) for name, value, commands, text in OPTIONS
                 if {COMMANDS[command][0], "EVERY"} & set(commands.split(" | "))]
    return ".Sh OPTIONS\n.Bl -tag -width Ds\n" + "".join(items) + ".El\n"


def commands():
    """The list of COMMANDS."""
    return ".Sh COMMANDS\n.Bl -tag -width completions\n" + "".join(
        f".It Cm {name}\n{roff(summary)}" + (f":\n.Xr vramtrace-{name} 1\n" if name != "help" else "\n")
        for name, (_, _, summary) in COMMANDS.items()) + ".El\n"


def synopsis(command):
    _, arguments, _ = COMMANDS[command]
    words = [{"[": "Oo", "]": "Oc"}.get(word) or ("Fl \\" + word[1:] if word[0] == "-" else ("Ar " if word.isupper() else "Cm ") + word)
             for word in re.findall(r"[][]|[^][ ]+", arguments.replace("...", " ..."))]
    return f'.Nm "vramtrace {command}"\n.' + " ".join(words).replace("Cm ...", "Ar ...") + "\n"


def page(name, version):
    source = (HERE / f"{name}.mdoc").read_text()
    sections = {section.split("\n")[0][4:]: section for section in re.split(r"^(?=\.Sh )", source, flags=re.M)[1:]}
    command = name.partition("-")[2]
    parts = [f".Dd {DATE}\n.Dt {name.upper()} 1\n.Os vramtrace {version}\n.Sh NAME\n.Nm {name}\n.Nd "]
    if command:
        parts += [COMMANDS[command][2], "\n.Sh SYNOPSIS\n", synopsis(command), sections.pop("DESCRIPTION"), options_of(command)]
    else:
        parts += ["GPU memory profiler\n", sections.pop("SYNOPSIS"), sections.pop("DESCRIPTION"), commands()]
    own = "".join(sections.pop("EXIT STATUS", "").partition("\n")[2:])
    exits = ".Sh EXIT STATUS\n.Bl -tag -width 3n -compact\n" + "".join(f".It {status}\n{roff(text)}\n" for status, text in EXITS)
    examples = sections.pop("EXAMPLES", "")
    also = sections.pop("SEE ALSO", "")
    parts += [*sections.values(), exits, ".El\n", own and ".Pp\n" + own, examples]
    listed = also + "".join(part for part in parts if ".Sh COMMANDS" not in part)
    seen = {"vramtrace 1"} | set(re.findall(r"\.Xr ([\w.-]+ \d)", listed)) | ({"vramtrace-json 5"} if ".It Fl \\-json" in listed else set())
    parts += [".Sh SEE ALSO\n", " ,\n".join(f".Xr {other}"
                                            for other in sorted(seen - {f"{name} 1"}, key=lambda other: other.split()[::-1])), "\n"]
    return "".join(parts)


def write(path, text):
    """Some troffs read ASCII only."""
    pathlib.Path(path).write_text(re.sub(r"[^\x00-\x7f]", lambda letter: rf"\[u{ord(letter[0]):04X}]", text))


if __name__ == "__main__":
    for page_name in sys.argv[3:]:
        write(pathlib.Path(sys.argv[2]) / f"{page_name}.1", page(page_name, sys.argv[1]))
