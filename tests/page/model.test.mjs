// The model against sums made the plain way from the made-up trace, at every change.
import assert from "node:assert/strict";
import test from "node:test";

import { Model, TraceData } from "../../analyzer/view/html/page/src/model.js";
import { Reader } from "../../analyzer/view/html/page/src/reader.js";
import { CATEGORIES, makePage, makeTrace, random, truth } from "./synthetic.mjs";

const quiet = async () => {};

async function open(trace, options) {
    const page = makePage([trace], options);
    const reader = new Reader(page.head, page.base64);
    const data = new TraceData(page.head, 0, await reader.trace(0, quiet), (blob, name) => reader.text(blob, name));
    return new Model(data, 0);
}

const trace = makeTrace({ events: 3000, leak: true });
const states = truth(trace);
const model = await open(trace);

test("the columns are those that were written", () => {
    assert.equal(model.changes, trace.changes.length);
    assert.equal(model.allocations, trace.allocations.length);
    trace.changes.forEach(({ event, t }, change) => {
        assert.equal(model.eventOf(change), event);
        assert.ok(t - model.timeOf(change) >= 0 && t - model.timeOf(change) < model.trace.tick_ns);
    });
    trace.allocations.forEach((allocation, i) => {
        assert.equal(model.begin[i], allocation.begin);
        assert.equal(model.end[i], allocation.end < 0 ? 0xffffffff : allocation.end);
        assert.equal(model.bytes(i), allocation.bytes);
        assert.equal(model.address(i), allocation.address);
        assert.equal(model.klass[i], allocation.class);
    });
});

test("the state at each change, in any order", () => {
    const rand = random(7);
    const order = [...states.keys()].concat(Array.from({ length: 3000 }, () => Math.floor(rand() * states.length)));
    for (const change of order) {
        const state = model.state(change);
        assert.deepEqual([...state.categories], states[change].categories);
        assert.equal(state.driver_bytes, states[change].driver);
        assert.equal(state.block_bytes, states[change].blocks);
        assert.equal(state.used_bytes, states[change].categories.reduce((sum, bytes, c) => sum + (["cached", "context", "host_pinned"].includes(CATEGORIES[c]) ? 0 : bytes), 0));
    }
});

test("before the first change there is nothing", () => {
    assert.equal(model.state(-1).driver_bytes, 0);
    assert.equal(model.alive(-1).length, 0);
});

test("what is alive", () => {
    for (let change = 0; change < states.length; change += 7) {
        const alive = trace.allocations.flatMap(({ begin, end }, i) => (begin <= change && (end < 0 || end > change) ? [i] : []));
        assert.deepEqual([...model.alive(change)], alive);
    }
});

test("the peak is the first of the largest", () => {
    const most = Math.max(...states.map(({ blocks }) => blocks));
    assert.equal(model.largestOf(0, states.length).change, states.findIndex(({ blocks }) => blocks === most));
    assert.equal(model.peak, model.largestOf(0, states.length).change);
});

test("no peak is lost in a picture, at any axis and zoom", () => {
    const rand = random(11);
    for (let i = 0; i < 300; i++) {
        const axis = model.axis(["time", "event", "step"][i % 3]);
        const a = axis.lo + rand() * (axis.hi - axis.lo);
        const b = i < 3 ? axis.hi : axis.lo + rand() * (axis.hi - axis.lo);
        const [lo, hi] = i < 3 ? [axis.lo, axis.hi] : [Math.min(a, b), Math.max(a, b)];
        const count = 1 + Math.floor(rand() * 400);
        const picture = model.picture(axis, lo, hi, count);
        const first = axis.changeAt(lo) + 1;
        const last = axis.changeAt(hi);
        if (last <= first + 2 * model.sums.bin)
            continue;
        // Columns end at the nearest bin: the largest of what is surely inside is there, exactly.
        const inside = states.slice(first + model.sums.bin, last - model.sums.bin).map(({ blocks }) => blocks);
        const shown = Array.from({ length: count }, (_, column) => picture.vectors[column * picture.width + model.table.blockAt]);
        assert.ok(Math.max(...shown) >= Math.max(...inside), `${axis.name} ${lo}..${hi} in ${count}`);
        picture.change.forEach((change, column) => {
            if (change >= 0)
                assert.deepEqual([...picture.vectors.subarray(column * picture.width, column * picture.width + CATEGORIES.length)], states[change].categories);
        });
    }
});

test("bins and the sums of what was allocated add up to the trace", () => {
    const between = (from, to) => trace.allocations.reduce((sums, { begin, class: k, bytes }) => {
        const row = trace.tables.classes[k];
        if (begin >= from && begin <= to)
            sums[CATEGORIES.indexOf(row.category)] += row.counted * bytes;
        return sums;
    }, new Array(CATEGORIES.length).fill(0));
    for (const [from, to] of [[0, states.length - 1], [0, 0], [100, 100], [5, 1777], [16, 31], [states.length - 1, states.length - 1]])
        assert.deepEqual([...model.allocated(from, to)], between(from, to));
});

test("axes lead to a place and back", () => {
    for (const name of ["event", "step", "time"]) {
        const axis = model.axis(name);
        for (let change = 0; change < states.length; change++) {
            const x = axis.of(change);
            assert.ok(x >= axis.lo && x <= axis.hi);
            if (name !== "time" && change)
                assert.ok(axis.changeAt(x) <= change && axis.changeAt(x) >= change - 1, `${name} ${change}: ${axis.changeAt(x)}`);
        }
        assert.equal(axis.changeAt(axis.hi), states.length - 1);
        assert.equal(axis.changeAt(axis.lo - 1), -1);
    }
});

test("each change has the step and the phase of its event", () => {
    let run = 0;
    trace.changes.forEach(({ event }, change) => {
        while (run + 1 < trace.phases.length && trace.phases[run + 1].first <= event)
            run++;
        assert.equal(model.stepOf(change), trace.phases[run].step);
        assert.equal(model.state(change).phase, trace.phases[run].kind);
    });
});

test("documents and names", async () => {
    const other = await open(makeTrace({ events: 500, hostile: true }), { documents: { leaks: { format: "x", devices: [] } } });
    assert.deepEqual(await other.document("leaks"), { format: "x", devices: [] });
    assert.equal(await other.document("oom"), null);
    const klass = other.classes.find(({ category }) => category === "activation");
    assert.match(klass.place.name, /^model\.py:\d+ addmm/);
    assert.equal(klass.stack.at(-1).function, "train");
    assert.ok(other.classes.some(({ stack }) => stack[0]?.function.includes("</script>")));
});

test("a trace of another device, and one without any change", async () => {
    const empty = makeTrace({ events: 10 });
    Object.assign(empty, { allocations: [], changes: [], phases: [], steps: [] });
    const none = await open(empty);
    assert.equal(none.changes, 0);
    assert.equal(none.state(0).driver_bytes, 0);
    assert.equal(none.alive(5).length, 0);
    assert.equal(none.picture(none.axis("time"), 0, 1e9, 50).vectors.every((value) => value === 0), true);
});
