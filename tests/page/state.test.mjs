// The address: what it says comes back, and nonsense does no harm.
import assert from "node:assert/strict";
import test from "node:test";

import { Model, TraceData } from "../../analyzer/view/html/page/src/model.js";
import { Reader } from "../../analyzer/view/html/page/src/reader.js";
import { applyFragment, clampZoom, DEFAULTS, fromFragment, Store, toFragment, usualAxis } from "../../analyzer/view/html/page/src/state.js";
import { makePage, makeTrace } from "./synthetic.mjs";

const page = makePage([makeTrace({ events: 1500 }), makeTrace({ events: 500, name: "rank 1", device: 3 })]);
const reader = new Reader(page.head, page.base64);
const data = new TraceData(page.head, 0, await reader.trace(0, async () => {}), null);
const model = new Model(data, 0);

const back = (state) => {
    const asked = fromFragment(`#${toFragment(state, model)}`, page.head);
    return { ...DEFAULTS, ...asked.patch, ...applyFragment(asked, model) };
};

test("what the page shows comes back from its address", () => {
    const axis = model.axis("event");
    const states = [
        { ...DEFAULTS, device: 0, zoom: [model.axis("time").lo, model.axis("time").hi] },
        { ...DEFAULTS, device: 0, axis: "event", zoom: [axis.lo + 10, axis.lo + 500.25], pinA: 77, pinB: 1033, tab: "leaks", filter: "läyers & <b>#", theme: "dark", patterns: true, scale: "card" },
        { ...DEFAULTS, device: 0, axis: "step", zoom: [2.125, 3.5], selection: { kind: "module", key: "a~b.c" } },
        { ...DEFAULTS, device: 0, zoom: [model.axis("time").lo, model.axis("time").hi], selection: { kind: "block", key: "12" } },
    ];
    for (const state of states)
        assert.deepEqual(back(state), state);
});

test("nonsense in the address is left out", () => {
    for (const fragment of ["#", "#trace=99&device=-7&axis=price&zoom=5~1&a=x&b=1e99&theme=pink&tab=&selection=evil~1&scale=0", "#zoom=~&a=-5", "#%E0%A4%A", "#trace=0.5"]) {
        const asked = fromFragment(fragment, page.head);
        const patch = applyFragment(asked, model);
        assert.equal(asked.patch.trace, 0);
        assert.equal(asked.patch.device, 0);
        assert.equal(asked.patch.axis, "time");
        assert.deepEqual(patch.zoom, [model.axis("time").lo, model.axis("time").hi]);
        assert.ok(patch.pinA === null || (patch.pinA >= -1 && patch.pinA < model.changes));
        assert.equal(patch.selection, null);
    }
    assert.equal(fromFragment("#trace=1", page.head).patch.device, 3);
});

test("the page opens at the worst that was found, if nobody asks for a tab", () => {
    const head = (leaks, requests) => ({ ...page.head, traces: [{ ...page.head.traces[0], devices: [{ ...page.head.traces[0].devices[0], leaks }],
        failed_requests: requests.map((device) => ({ device })) }] });
    const tab = (fragment, ...found) => fromFragment(fragment, head(...found)).patch.tab;
    assert.equal(tab("#", 0, []), "who");
    assert.equal(tab("#", 0, [3]), "who");
    assert.equal(tab("#", 2, []), "leaks");
    assert.equal(tab("#", 2, [0]), "oom");
    assert.equal(tab("#tab=map", 2, [0]), "map");
});

test("a window stays within the axis and above the least", () => {
    const axis = { lo: 10, hi: 110, least: 5 };
    assert.deepEqual(clampZoom(axis, 0, 50), [10, 60]);
    assert.deepEqual(clampZoom(axis, 80, 140), [50, 110]);
    assert.deepEqual(clampZoom(axis, 50, 51), [48, 53]);
    assert.deepEqual(clampZoom(axis, -500, 500), [10, 110]);
});

test("listeners hear of what changed, once", async () => {
    globalThis.requestAnimationFrame = (run) => setTimeout(run);
    const store = new Store({});
    const heard = [];
    const stop = store.subscribe((state, keys) => heard.push([state.tab, state.hover, [...keys].sort().join()]));
    store.set({ tab: "map" });
    store.set({ hover: 4 });
    store.set({ zoom: [0, 1] });
    await new Promise((resolve) => setTimeout(resolve, 20));
    stop();
    store.set({ tab: "who" });
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.deepEqual(heard, [["map", 4, "hover,tab"]]);
});

test("a trace that is mostly idle opens by event, a long one by time", () => {
    const trace = (changes, bytes) => ({ changes, failed_requests: [], devices: [{ index: 0, leaks: 0, overview: { columns: bytes.length, driver_bytes: bytes, categories: { parameter: bytes } } }] });
    const idle = [1, 2, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4], busy = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11];
    assert.equal(usualAxis(trace(100, idle)), "event");
    assert.equal(usualAxis(trace(100, busy)), "time");
    assert.equal(usualAxis(trace(5e6, idle)), "time");
    assert.equal(usualAxis({ changes: 0, devices: [] }), "time");
    const head = { traces: [trace(100, idle)] };
    assert.equal(fromFragment("#", head).patch.axis, "event");
    assert.equal(fromFragment("#axis=time", head).patch.axis, "time");
    const model = { trace: head.traces[0], axis: () => ({ lo: 0, hi: 1 }) };
    assert.match(toFragment({ ...DEFAULTS, axis: "time" }, model), /axis=time/);
    assert.doesNotMatch(toFragment({ ...DEFAULTS, axis: "event" }, model), /axis/);
});
