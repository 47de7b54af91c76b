#!/usr/bin/env python3
"""Fails if a change raises the GPU memory that a program needs. No GPU is used: both versions run as `vramtrace dryrun`.

    compare_memory.py --base COMMIT [--gpu h100-80gb] [--tolerance 2%] [--out FOLDER] -- python train.py

COMMIT is checked out beside the working tree, and the command runs in both. Prints a table in Markdown; GitHub shows it in the summary
of the job, and FOLDER (memory) has it as summary.md, with both traces. The exit status is 1 if the peak rose by more than the tolerance.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def run(*words, **settings):
    return subprocess.run([str(word) for word in words], **settings)


def dryrun(options, folder, trace):
    if run("vramtrace", "dryrun", "--gpu", options.gpu, "-o", trace, *options.command, cwd=folder).returncode:
        sys.exit(f"compare_memory.py: the program failed or does not fit on {options.gpu} in {folder}")


def peaks(trace):
    """[{category: bytes}] of each GPU, with "peak"."""
    told = json.loads(run("vramtrace", "report", "--json", trace, check=True, capture_output=True, text=True).stdout)
    return [{"peak": device["peak"]["block_bytes"], **device["peak"]["categories"]} for device in told["devices"]]


def mib(count):
    return f"{count / (1 << 20):,.0f} MiB"


def table(gpu, before, after, failed):
    yield f"### {'❌' if failed else '✅'} GPU memory at the peak, `{gpu}` (simulated)\n"
    yield "| GPU | | base | this change | |\n|--:|---|--:|--:|--:|"
    for number, (old, new) in enumerate(zip(before, after)):
        for name in new:
            if old.get(name, 0) or new[name]:
                share = f"{(new[name] / old[name] - 1) * 100:+.1f} %" if old.get(name) else "new"
                yield f"| {number} | {name.replace('_', ' ')} | {mib(old.get(name, 0))} | {mib(new[name])} | {share} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--base", required=True)
    parser.add_argument("--gpu", default="h100-80gb")
    parser.add_argument("--tolerance", default="2%")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("memory"))
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    before, after = options.out.resolve() / "before.vrt", options.out.resolve() / "after.vrt"
    with tempfile.TemporaryDirectory() as folder:
        run("git", "worktree", "add", "--detach", f"{folder}/base", options.base, check=True, stdout=subprocess.DEVNULL)
        try:
            here = run("git", "rev-parse", "--show-prefix", check=True, capture_output=True, text=True).stdout.strip()
            dryrun(options, f"{folder}/base/{here}", before)
        finally:
            run("git", "worktree", "remove", "--force", f"{folder}/base")
    dryrun(options, ".", after)
    form = "github" if "GITHUB_ACTIONS" in os.environ else "text"
    failed = run("vramtrace", "check", after, "--baseline", before, "--tolerance", options.tolerance, "--format", form).returncode
    summary = "\n".join(table(options.gpu, peaks(before), peaks(after), failed)) + "\n"
    print(summary)
    (options.out / "summary.md").write_text(summary)
    if "GITHUB_STEP_SUMMARY" in os.environ:
        with open(os.environ["GITHUB_STEP_SUMMARY"], "a") as file:
            file.write(summary)
    return failed


if __name__ == "__main__":
    sys.exit(main())
