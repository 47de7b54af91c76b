#!/usr/bin/env python3
"""Makes page_parts.inc: the page's template with its style and its program in it, as three C strings.

The writer (page.c) prints them around a trace's head and data. With --html the page is written with marks
in the places of head and data instead, for tests.

usage: bundle.py ESBUILD PAGE_FOLDER OUTPUT [--html | --depfile FILE]
       bundle.py --check   (exit status 1 if D3's modules are not there)
"""
import base64
import hashlib
import os
import subprocess
import sys
from pathlib import Path

# The last is where Debian has D3's modules.
MODULES = [*filter(None, os.environ.get("NODE_PATH", "").split(os.pathsep)), "/usr/share/nodejs"]


def bundle(esbuild, entry, *options):
    made = subprocess.run([esbuild, str(entry), "--bundle", "--minify", "--charset=utf8", "--log-level=warning", *options],
                          env={**os.environ, "NODE_PATH": os.pathsep.join(MODULES)}, check=True, stdout=subprocess.PIPE)
    return made.stdout.decode().strip()


def hash_of(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def page_of(esbuild, folder):
    script = bundle(esbuild, folder / "src" / "main.js", "--format=iife", "--target=es2020")
    style = bundle(esbuild, folder / "style.css")
    # What HTML would take for the end of the element; esbuild writes neither.
    if "</script" in script.lower() or "</style" in style.lower() or "<!--" in script:
        sys.exit("bundle.py: the program or the style has what would end its element")
    policy = (f"default-src 'none'; script-src {hash_of(script)}; style-src {hash_of(style)}; worker-src blob:; "
              "base-uri 'none'; form-action 'none'")
    page = (folder / "index.html").read_text(encoding="utf-8")
    for mark, text in (("@POLICY@", policy), ("@STYLE@", style), ("@SCRIPT@", script)):
        if page.count(mark) != 1:
            sys.exit(f"bundle.py: index.html needs {mark} once")
        head, tail = page.split(mark)
        page = head + text + tail
    return page


def literal(text):
    """A C string. An escape has three octal digits: it ends there, whatever follows."""
    def sign(byte):
        return chr(byte) if 0x20 <= byte < 0x7f and byte not in b'"\\?' else f"\\{byte:03o}"
    data = text.encode()
    return "\n".join('"' + "".join(map(sign, data[at:at + 120])) + '"' for at in range(0, len(data), 120))


def main():
    if sys.argv[1:] == ["--check"]:
        sys.exit(not any(Path(folder, "d3-hierarchy").is_dir() for folder in MODULES))
    esbuild, folder, output = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    page = page_of(esbuild, folder)
    if "--html" in sys.argv:
        output.write_text(page, encoding="utf-8")
        return
    before, rest = page.split("@HEAD@")
    between, after = rest.split("@DATA@")
    output.write_text("/* Made by bundle.py. */\n" + ",\n".join(map(literal, (before, between, after))) + ",\n", encoding="utf-8")
    if "--depfile" in sys.argv:
        sources = [__file__, *sorted(path for path in folder.rglob("*") if path.is_file())]
        depfile = Path(sys.argv[sys.argv.index("--depfile") + 1])
        depfile.write_text(f"{output}: " + " ".join(str(source).replace(" ", "\\ ") for source in sources) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
