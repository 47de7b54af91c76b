"""What the page shows at a moment, to the byte, against `vramtrace report --at event:N` for the event that the page names."""
import bisect

import page_data
import pytest
from browser import exact_bytes, printed_bytes
from conftest import LONG
from recordings import APART, TEN, at_event

import helpers

WAYS = {"category": "categories", "module": "modules", "kind": "kinds", "owner": "owners", "line": "lines", "stack": "stacks", "op": "ops",
        "block": None}


def wanted(state, labels, card):
    """The table that the page should show for a state of the report."""
    categories = {**state["categories"], "host_pinned": state["host_pinned_bytes"]}
    table = {labels[name]: size for name, size in categories.items() if size}
    table["in use"] = sum(size for name, size in categories.items() if name not in APART)
    table["from driver"] = state["driver_bytes"]
    if card:
        table["GPU size"] = card
    return table


def ever(trace, device, labels):
    """Labels of categories that have bytes at any moment: they stay in the table. Of what is cached, only the sums tell."""
    used = {trace.class_of(one)["category"] for one in trace.allocations
            if trace.class_of(one)["counted"] and trace.class_of(one)["device"] in (device, -1)}
    return {labels[name]: 0 for name in used - {"cached"}}


def check_moment(shown, state, labels, card, stay):
    table = {**stay, **wanted(state, labels, card)}
    shown["bytes"] = {label: size for label, size in shown["bytes"].items() if size or label != labels["cached"]}
    assert shown["bytes"] == table
    assert {label: shown["printed"][label] for label in table} == {label: printed_bytes(size) for label, size in table.items()}
    assert (shown["step"], shown["phase"]) == (state["step"], state["phase"])


def names_a_change_there(trace, event, low, high):
    """A change that some point of low..high shows: one there, or the last before it."""
    at = bisect.bisect_left(trace.events, event)
    is_change = at < len(trace.events) and trace.events[at] == event
    following = trace.events[at + 1] if at + 1 < len(trace.events) else high
    return is_change and event <= high and following >= low - 1


@pytest.mark.parametrize("name", TEN)
def test_hover_at_twenty_moments(browser, page_of, traces, name):
    path = page_of(name)
    _, (trace,) = page_data.read(path)
    labels = {category["name"]: category["label"] for category in trace.head["categories"]}
    for device in trace.head["devices"]:
        browser.open(path, f"tab=who&axis=event&device={device['index']}")
        browser.keep(f"{name}-{device['index']}" if device["index"] else name)
        left, top, width, height = browser.plot()
        seen, stay = 0, ever(trace, device["index"], labels)
        count = 20 if device["index"] == 0 else 5
        for i in range(count):
            x = left + 2 + round((width - 4) * (i + 0.5) / count)
            browser.hover(x, top + height * (0.2 + 0.6 * (i % 4) / 4))
            if browser.state()["hover"] in (None, -1):  # before the first change nothing is named
                assert trace.events[0] >= (x - 2 - left) / width * trace.head["events"]
                continue
            shown = browser.moment()
            assert shown["title"].startswith("At ")
            at = lambda points: (x + points - left) / width * trace.head["events"]  # noqa: E731
            assert names_a_change_there(trace, shown["event"], at(-2), at(2)), (shown["event"], at(-2), at(2))
            check_moment(shown, at_event(traces[name], shown["event"])[device["index"]], labels, device["total_bytes"], stay)
            seen += 1
        assert seen >= min(5, count)


def test_pinned_moments_and_their_difference(browser, page_of, traces):
    """B is pinned by the keyboard at one place, A by a click at another: the difference is that of two reports."""
    path = page_of("transformer")
    _, (trace,) = page_data.read(path)
    labels = {category["name"]: category["label"] for category in trace.head["categories"]}
    browser.open(path, "axis=event")
    left, top, width, height = browser.plot()
    browser.mouse(("move", left + width * 0.3, top + height / 2), ("down",), ("up",))
    browser.press("b")
    browser.mouse(("move", left + width * 0.8, top + height / 2), ("down",), ("up",), ("move", 600, 8))
    browser.settle()
    state = browser.state()
    a, b = (trace.events[state[pin]] for pin in ("pinA", "pinB"))
    assert a != b
    reports = [at_event(traces["transformer"], event)[0] for event in (a, b)]
    card = trace.head["devices"][0]["total_bytes"]
    tables = [wanted(report, labels, card) for report in reports]
    shown = browser.moment()
    assert shown["title"].startswith("A:") and shown["event"] == a
    tables[0] = {**ever(trace, 0, labels), **{label: 0 for label in tables[1]}, **tables[0]}
    assert shown["bytes"] == tables[0]
    for label, difference in shown["differences"].items():
        assert difference == tables[0][label] - tables[1].get(label, 0), label  # what the later one has more: A
    assert set(shown["differences"]) == set(tables[0]) - {"GPU size"}
    # The rows below: the same of each module.
    browser.tab("who")
    browser.script("((s) => { s.value = 'category'; s.dispatchEvent(new Event('change')); })(document.querySelector('.vp-who select'))")
    browser.settle()
    found = {row: {column: exact_bytes(title) for column, (_, title) in cells.items() if title.endswith(" B")}
             for _, row, cells in browser.rows()}
    for label, columns in found.items():
        assert columns["A"] == tables[0].get(label, 0) and columns["B"] == tables[1].get(label, 0), label
        assert columns["A − B"] == columns["A"] - columns["B"]
    assert set(found) == {label for table in tables for label, size in table.items()
                          if size} - {"in use", "from driver", "GPU size", *(labels[name] for name in APART)}
    browser.keep("transformer-compared")
    # The same by files and lines of the source.
    browser.tab("source")
    files = [{column: exact_bytes(cells[column][1]) for column in ("A", "B", "A − B")} for _, _, cells in browser.rows()]
    assert [sum(row[column] for row in files) for column in ("A", "B")] == [table["in use"] for table in tables]
    assert sum(row["A − B"] for row in files) == tables[0]["in use"] - tables[1]["in use"]
    file = browser.script("document.querySelector('.vp-code h3').textContent")
    lines = [exact_bytes(title) for title in browser.script("[...document.querySelectorAll('.vp-code .vp-heat[title]')].map(cell => cell.title)")]
    key = {name: cells["A − B"][1] for _, name, cells in browser.rows()}
    assert sum(lines) == exact_bytes(next(title for name, title in key.items() if file.endswith(name))), (file, key)
    browser.keep("transformer-source-compared")


@pytest.mark.parametrize("name", TEN if LONG else ("transformer", "out_of_memory", "two_devices"))
def test_groups_of_the_peak(browser, page_of, traces, name):
    """Each way to group the table below, row by row, against the report's groups."""
    report = helpers.report(traces[name])
    for device in report["devices"]:
        peak = device["peak"]
        used = sum(size for category, size in peak["categories"].items() if category not in APART)
        browser.open(page_of(name), f"device={device['index']}")
        browser.tab("who")
        for way, key in WAYS.items():
            browser.script("((s) => { s.value = arguments[0]; s.dispatchEvent(new Event('change')); })(document.querySelector('.vp-who select'))", way)
            shown = [(row, exact_bytes(next(title for _, title in cells.values() if title.endswith(" B"))))
                     for _, row, cells in browser.rows()] if used else []
            assert sum(size for _, size in shown) == used, way
            if way == "category":
                theirs = [size for category, size in peak["categories"].items() if size and category not in APART]
            elif key:
                theirs = [group["bytes"] for group in peak[key] if group["bytes"]]
            else:
                continue
            assert sorted(size for _, size in shown if size) == sorted(theirs), way


@pytest.mark.parametrize("name", TEN if LONG else ("transformer", "gan", "two_devices", "program"))
def test_every_level_sums_to_the_trace(browser, page_of, traces, name):
    """The sums that stand for many changes at once, in the browser's own memory: what began and what ended, by category, adds
    up to what the events say; and the largest state of any level is the report's peak."""
    path = page_of(name)
    _, (trace,) = page_data.read(path)
    report = {device["index"]: device for device in helpers.report(traces[name])["devices"]}
    names = [category["name"] for category in trace.head["categories"]]
    for device in trace.head["devices"]:
        browser.open(path, f"device={device['index']}")
        born, left = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
        for allocation in trace.allocations:
            klass = trace.class_of(allocation)
            if klass["device"] in (device["index"], -1):
                born[klass["category"]] += klass["counted"] * allocation["bytes"]
                if allocation["end"] is None:
                    left[klass["category"]] += klass["counted"] * allocation["bytes"]
        state = report[device["index"]]
        for count in (1, 7, 100, 1280):
            levels = browser.script("""((count) => {
                const {model} = vramtrace, axis = model.axis('event'), sums = new Array(model.categories.length).fill(0);
                const whole = model.picture(axis, axis.lo, axis.hi, count);
                let low = 0, largest = 0, largestUsed = 0;
                for (let column = 0; column < count; column++) {
                    const high = Math.round((column + 1) * model.changes / count);
                    model.allocated(low, high - 1).forEach((bytes, c) => sums[c] += bytes);
                    low = high;
                    const vector = whole.vectors.subarray(column * whole.width, (column + 1) * whole.width);
                    largest = Math.max(largest, model.measure(vector));
                    const here = model.state(whole.change[column]);
                    if (here.categories.some((bytes, c) => bytes !== vector[c])) throw new Error(`column ${column} of ${count} is not its change's state`);
                }
                return [Object.fromEntries(model.categories.map(({name}, c) => [name, sums[c]])), largest];
            })(arguments[0])""", count)
            sums, largest = levels
            assert {category: size for category, size in sums.items()
                    if category != "cached"} == {category: size for category, size in born.items() if category != "cached"}, count
            peak = state["peak"]
            assert largest == (peak["block_bytes"] if device["has_blocks"]
                               else peak["driver_bytes"] - peak["categories"].get("cached", 0)), count
        # What began, less what ended, is what the report says is there at the end.
        end = {**state["end"]["categories"], "host_pinned": state["end"]["host_pinned_bytes"]}
        assert {category: size for category, size in left.items() if size
                and category != "cached"} == {category: size for category, size in end.items() if size and category != "cached"}
