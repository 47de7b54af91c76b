// A page that has not each event: nothing of a gap is taken for a state.
import assert from "node:assert/strict";
import test from "node:test";

import { Model, TraceData } from "../../analyzer/view/html/page/src/model.js";
import { Reader } from "../../analyzer/view/html/page/src/reader.js";
import { gapsOf, makePage, makeTrace, truth } from "./synthetic.mjs";

const trace = makeTrace({ events: 60000, leak: true });
const states = truth(trace);
const shares = [[0.1, 0.3], [0.4, 0.41], [0.6, 0.95]];

async function open(gaps) {
    const page = makePage([trace]);
    page.head.traces[0].gaps = gaps;
    const reader = new Reader(page.head, page.base64);
    return new Model(new TraceData(page.head, 0, await reader.trace(0, async () => {}), (blob, name) => reader.text(blob, name)), 0);
}

const gaps = gapsOf(trace, shares);
const model = await open(gaps);
const inside = (event) => gaps.first_event.some((first, i) => first <= event && event < gaps.end_event[i]);

test("changes in gaps are known", () => {
    trace.changes.forEach(({ event }, change) => {
        assert.equal(model.gaps.at(change) >= 0, inside(event));
        assert.equal(model.state(change).partial, inside(event));
        for (const by of [1, -1])
            assert.ok(model.gaps.at(model.gaps.beside(change, by)) < 0);
    });
});

for (const axis of ["time", "event", "step"])
    for (const count of [7, 300, 5000])
        test(`a picture by ${axis} of ${count} columns shows what is known, and where nothing is`, () => {
            const { lo, hi, gaps: places } = model.axis(axis);
            const picture = model.picture(model.axis(axis), lo, hi, count);
            for (let column = 0; column < count; column++) {
                const vector = picture.vectors.subarray(column * picture.width, (column + 1) * picture.width);
                const blocks = vector[model.table.blockAt];
                if (picture.gap[column]) {
                    assert.equal(blocks, 0);
                    const from = lo + (column * (hi - lo)) / count;
                    assert.ok(model.gaps.among(places, from, from + (hi - lo) / count).count > 0 || count === 5000);
                } else {
                    const change = picture.change[column];
                    assert.ok(model.gaps.at(change) < 0);
                    assert.equal(blocks, change < 0 ? 0 : states[change].blocks);
                }
            }
            const shown = picture.gap.reduce((sum, gap) => sum + gap, 0) / count;
            assert.ok(axis !== "event" || count < 300 || Math.abs(shown - 0.56) < 0.02, `${shown}`);
        });

test("the largest state is one that is known", () => {
    const last = trace.changes.length - 1;
    for (const [from, to] of [[0, last], [Math.floor(last * 0.2), Math.floor(last * 0.7)]]) {
        const change = model.largestOf(from, to + 1).change;
        assert.ok(model.gaps.at(change) < 0);
        const most = Math.max(...states.slice(from, to + 1).filter((_, i) => model.gaps.at(from + i) < 0).map(({ blocks }) => blocks));
        assert.equal(states[change].blocks, most);
    }
});

test("a page of before has none", async () => {
    const old = await open(undefined);
    assert.equal(old.gaps.count, 0);
    assert.ok(!old.picture(old.axis("time"), 0, trace.t, 500).gap.includes(1));
});
