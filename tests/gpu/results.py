"""What a run leaves: one page for docs/results/, the same as JSON, and the traces for later study.

At most 8 files of 16 MiB each, so that they come back from a machine that gives little."""
import json
import subprocess
import tarfile

from helpers import ENVIRONMENT, PROGRAM

ARCHIVES, ARCHIVE_BYTES = 4, 15 << 20
BAD = ("differs", "no", "too much")
VALUE_LENGTH = 200


def show(value):
    if value is None:
        return ""
    if isinstance(value, float):
        text = f"{value:.6g}"
    elif isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:,}"
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= VALUE_LENGTH else text[:VALUE_LENGTH] + " …"


def show_row(row):
    """Long values that are equal are shown once."""
    true, ours = show(row["true"]), show(row["ours"])
    if row["verdict"] == "equal" and len(true) > 40:
        ours = "the same"
    verdict = f"**{row['verdict']}**" if row["verdict"] in BAD else row["verdict"]
    return "| " + " | ".join([show(row["what"]), show(row["source"]), true, ours, verdict]) + " |"


def summary(done):
    count = {state: sum(one["state"] == state for one in done) for state in ("passed", "failed", "not run")}
    return ", ".join(f"{number} {state}" for state, number in count.items())


def page(title, facts, missing, done):
    made = f"Made by `tests/gpu/run.sh` ([how](../gpu.md)) on {facts['date']}, commit {facts['commit']}. {summary(done)}."
    lines = [f"# {title}", "", made, "", "| | |", "|---|---|"]
    lines += [f"| {name} | {show(text)} |" for name, text in facts.items()]
    lines += [f"| missing | {show(', '.join(missing) or 'nothing')} |", "", "| part | | result | s |", "|---|---|---|--:|"]
    told = [one for one in done if one["rows"] or one["state"] == "failed"]
    for one in done:
        name = f"[{one['name']}](#{one['name']})" if one in told else one["name"]
        lines.append(f"| {name} | {one['what']} | {verdict(one)} | {one['seconds']:.0f} |")
    for one in told:
        lines += ["", f"## {one['name']}", "", f"{one['what']}: {verdict(one)}."]
        if one["rows"]:
            lines += ["", "| | source | its value | vramtrace | |", "|---|---|--:|--:|---|"]
            # What is wrong first.
            lines += [show_row(row) for row in sorted(one["rows"], key=lambda row: row["verdict"] not in BAD)]
    return "\n".join(lines) + "\n"


def verdict(one):
    return f"{one['state']}: {show(one['reason'])}" if one["reason"] else one["state"]


def write(out, title, facts, missing, done):
    (out / "gpu-results.md").write_text(page(title, facts, missing, done))
    (out / "gpu-results.json").write_text(json.dumps({"facts": facts, "missing": missing, "parts": done}, ensure_ascii=False, indent=1))


def keep_traces(out, folder):
    """`info` of every trace, logs and truths, and the traces themselves, smallest first, until there is no more room."""
    traces = sorted((path for path in folder.rglob("*.vrt") if path.is_file()), key=lambda path: path.stat().st_size)
    with open(out / "info.txt", "w") as info:
        for trace in traces:
            told = subprocess.run([PROGRAM, "info", trace], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
            info.write(f"==== {trace.relative_to(folder)}\n{told.stdout}{told.stderr}\n")
            if info.tell() > ARCHIVE_BYTES:
                break
    texts = [path for path in folder.rglob("*") if path.is_file() and path.suffix in (".log", ".json", ".xml", ".rows", ".truth")
             and path.stat().st_size < 2 << 20]
    pack(out / "logs.tar.gz", folder, texts)
    left_out, group, size, number = [], [], 0, 1
    for trace in [*traces, None]:
        more = trace.stat().st_size if trace else 0
        if group and (trace is None or size + more > ARCHIVE_BYTES):
            pack(out / f"traces-{number}.tar.gz", folder, group)
            group, size, number = [], 0, number + 1
        if trace and (more > ARCHIVE_BYTES or number > ARCHIVES):
            left_out.append(str(trace.relative_to(folder)))
        elif trace:
            group.append(trace)
            size += more
    return left_out


def pack(path, folder, files):
    with tarfile.open(path, "w:gz", compresslevel=6) as archive:
        for file in files:
            archive.add(file, str(file.relative_to(folder)))
