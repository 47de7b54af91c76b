// What advice would have left, against a walk over every change.
import assert from "node:assert/strict";
import test from "node:test";

import { growthOf } from "../../analyzer/view/html/page/src/growing.js";
import { Model, TraceData } from "../../analyzer/view/html/page/src/model.js";
import { Reader } from "../../analyzer/view/html/page/src/reader.js";
import { groupsOf, leftOf, runsOf } from "../../analyzer/view/html/page/src/whatif.js";
import { makePage, makeTrace, random, truth } from "./synthetic.mjs";

const trace = makeTrace({ events: 6000 });
const states = truth(trace);
const rand = random(7);
const rows = [0, 1, 2].flatMap((advice) => Array.from({ length: 40 }, () => Math.floor(rand() * trace.event)).sort((a, b) => a - b)
    .map((event) => ({ device: 0, advice, event, bytes: Math.floor((rand() - 0.2) * (8 << 20)) })));
const page = makePage([{ ...trace, savings: rows }]);
const reader = new Reader(page.head, page.base64);
const model = new Model(new TraceData(page.head, 0, await reader.trace(0, async () => {}), (blob, name) => reader.text(blob, name)), 0);

// What the groups save at a change, the plain way.
function savedAt(change, groups) {
    const { event } = trace.changes[change];
    const of = (advice) => rows.filter((row) => row.advice === advice && row.event <= event).at(-1)?.bytes ?? 0;
    return groups.reduce((sum, group) => sum + Math.max(...group.map(of)), 0);
}

test("advice that shares memory is in one group", () => {
    const advice = [{ same: [3] }, { same: [] }, { same: [3] }, { same: [0, 2] }];
    assert.deepEqual(groupsOf([0, 1], advice), [[0], [1]]);
    assert.deepEqual(groupsOf([0, 1, 2], advice), [[0], [1], [2]]);
    assert.deepEqual(groupsOf([0, 1, 2, 3], advice), [[1], [0, 2, 3]]);
});

for (const groups of [[[0]], [[0], [1]], [[0, 1], [2]]])
    test(`what ${JSON.stringify(groups)} leaves`, () => {
        const left = states.map(({ blocks }, change) => blocks - savedAt(change, groups)), runs = runsOf(model, groups);
        assert.equal(runs.peak, Math.max(...left));
        for (const wide of [1, 7, 97, 1000])
            for (let low = 0; low < model.changes; low += wide) {
                const high = Math.min(model.changes, low + wide), most = Math.max(...states.slice(low, high).map(({ blocks }) => blocks));
                const wanted = Math.max(...left.slice(low, high)), found = leftOf(runs, low, high, most);
                // exact within a run and over whole ones; where a run only begins or ends here, no less than there is
                assert.ok(found >= wanted && (wide > 1 || found === wanted), `${low} ${wide}`);
            }
        assert.equal(leftOf(runs, 500, 500, states[499].blocks), left[499]);
    });

test("a cache that grows, as the report says it", async () => {
    const inference = { kv_cache_bytes_per_call: 196608, calls_that_fit: 4131, fit: "at least" };
    const device = { index: 0, leaks: 0, overview: { categories: { kv_cache: [0, 5] } } };
    const found = await growthOf({ device, categories: [{ name: "kv_cache" }], document: async () => ({ devices: [{ index: 0, inference }] }) });
    assert.deepEqual(found.map(({ text }) => text), ["KV cache: +192 KiB per call, GPU full after at least 4,131 more calls"]);
});
