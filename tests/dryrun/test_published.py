"""The arithmetic of published.py and what it reads, on a clone made up here; no program is repeated."""
import json
import statistics
import subprocess

import pytest

import published
import published_inputs as inputs
import published_others as others
import published_page as pages

VERSIONS = {"torch-version": "2.13.0+cu130", "transformers-version": "5.13.1", "diffusers-version": "0.38.0", "datasets-version": "4.2.0",
            "bitsandbytes-version": "0.49.2", "peft-commit-hash": "194cb8feb21c6623f61f30305e20fdbe2b842c10"}


def result(task, allocated, reserved, largest):
    return {"train_info": {"metrics": [{"step": task.period, "mem allocated avg": allocated, "mem reserved avg": reserved}],
                           "accelerator_memory_max": largest, "num_total_params": 7},
            "meta_info": {"package_info": VERSIONS}}


def git(folder, *arguments):
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C", folder, *arguments], check=True, capture_output=True)


@pytest.fixture
def clone(tmp_path):
    folder = tmp_path / "clone"
    for task, names in ((published.Images, ("b--one", "a--two", "c--three")), (published.Texts, (*published.Texts.fitted, "x--y"))):
        for name in names:
            path = folder / task.folder / "results" / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(result(task, 1000, 2000, 3000)))
        inside = folder / task.folder / "experiments" / "b" / "one"
        inside.mkdir(parents=True)
        (inside / "adapter_config.json").write_text('{"r": 1}')
    git(tmp_path, "init", "clone")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "x")
    return folder


def test_results_are_read(clone, tmp_path):
    experiments = published.published(clone, published.Images(), [])
    assert [one.name for one in experiments] == ["a--two", "b--one", "c--three"]
    one = experiments[1]
    assert one.bytes == {"allocated": 1000, "reserved": 2000, "largest": 3000} and one.parameters == 7
    assert one.versions() == "torch 2.13.0, transformers 5.13.1, diffusers 0.38.0, datasets 4.2.0, peft 194cb8feb"
    assert one.files(tmp_path / "newer than its commit") == {"adapter_config.json": '{"r": 1}'}
    assert [one.name for one in published.published(clone, published.Images(), ["a*"])] == ["a--two"]


def test_page(clone):
    task = published.Images(8)
    found = {"a--two": {"allocated": 1001, "reserved": 2080, "parameters": 7, "steps": 8},
             "b--one": {"allocated": 1000, "reserved": 1999, "parameters": 8, "short": True, "steps": 3}, "c--three": {"failed": "why"}}
    text = "\n".join(pages.part(task, published.published(clone, task, []), found, "l40s", "64GiB"))
    assert "| allocated | 0.050 % | 0.100 % | 1 of 3 | 2 of 3 | 2 of 3 | 2 of 3 |" in text
    assert "| reserved | 2.025 % | 4.000 % | 0 of 3 | 1 of 3 | 1 of 3 | 2 of 3 |" in text
    assert "| a--two | 0.001 | 0.001 | +0.100 % | 0.002 | 0.002 | +4.000 % |" in text
    assert "| b--one (8 parameters, published 7) (3 steps) † |" in text and "- c--three: why" in text and "Not run" not in text


def test_fitted_rows_do_not_count(clone):
    task = published.Texts()
    experiments = published.published(clone, task, [])
    found = {name: {"allocated": 1000, "reserved": 2000, "largest": 4000, "parameters": 7, "steps": 30} for name in task.fitted}
    text = "\n".join(pages.part(task, experiments, found, "l40s", "64GiB", task.fitted))
    assert text.count(" * |") == 2 and "Not run: x--y." in text and "of 1 |" not in text


def test_lines_of_the_scripts(tmp_path):
    log = tmp_path / "log"
    log.write_text("\n".join(f' 10%|█| {json.dumps({"step": f"{step:5d}", "mem allocated": str(a), "mem reserved": str(r)})}'
                             for step, a, r in ((10, 100, 1000), (20, 50, 500), (30, 120, 2000))))
    means = published.means(log)
    assert means[0] == (10, {"allocated": 100, "reserved": 1000}) and len(means) == 3
    assert published.Images().read(means, "") == {"allocated": 100, "reserved": 1000}
    task = published.Texts()
    assert task.read(means, "") is None and task.read(means[:2], "accelerator memory max: 3MB") is None
    assert task.read(means, "x\naccelerator memory max: 3MB\n") == {"allocated": 76, "reserved": 760, "largest": 3 << 20}  # 13 and 12 of 25


def test_lengths():
    average, longest = inputs.lengths()
    assert len(average) == len(longest) == inputs.BUCKET and average == sorted(average, reverse=True)
    assert abs(statistics.mean(average) / inputs.MEAN - 1) < 0.005
    assert abs(statistics.pstdev(average) / inputs.MEAN / inputs.SPREAD - 1) < 0.05
    assert average[0] < longest[0] <= inputs.LONGEST


def test_other_figures():
    script, *_, figures = others.ROWS[0]
    (run, kind), figure = next(iter(figures.items()))
    text = "\n".join(others.part({script: {(run, kind): float(figure) * 1.01}}))
    assert f"| {run}, {kind} | {figure} | {float(figure) * 1.01:.6f} | +1.000 % |" in text
    total = sum(len(figures) for *_, figures in others.ROWS)
    assert f"within 0.2 %: 0 of {total}, " in text and f"within 5 %: 1 of {total}." in text and others.ROWS[1][0] in text
