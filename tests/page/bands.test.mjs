// The timeline by modules, lines and owners, and what a search finds: sums at every change, made by going through all allocations.
import assert from "node:assert/strict";
import test from "node:test";

import { Bands } from "../../analyzer/view/html/page/src/bands.js";
import { Model, TraceData } from "../../analyzer/view/html/page/src/model.js";
import { Reader } from "../../analyzer/view/html/page/src/reader.js";
import { makePage, makeTrace } from "./synthetic.mjs";

const APART = ["cached", "context", "host_pinned"];
const trace = makeTrace({ events: 900, leak: true });
// Two tensors in one block: it is of both, and a rest is of none.
const first = trace.tables.classes.findIndex(({ tensors }) => tensors);
const { tensors } = trace.tables.classes[first];
const share = trace.tables.tensors[tensors - 1].share_bytes / 4;
Object.assign(trace.tables.tensors[tensors - 1], { share_bytes: share, next: trace.tables.tensors.push(
    { ...trace.tables.tensors[tensors - 1], name: "tied.weight", share_bytes: share, next: 0 }) });

const ROWS = trace.tables.classes;
const used = (row) => row.counted && row.kind !== "segment" && !APART.includes(row.category);
// What has no owner is told by module and category, as the report does.
const NAME = {
    module: ({ module }) => [[module || "no module", 1]],
    line: ({ place_name }) => [[place_name || "no line known", 1]],
    owner(row, k) {
        if (k === first)
            return [["layers.0.weight", 0.25], ["tied.weight", 0.25], ["not in a known tensor", 0.5]];
        const where = row.module || (["workspace", "communication"].includes(row.category) ? "" : row.place_name);
        return [[row.owner || `${where}${where && " · "}${row.category}`, 1]];
    },
};

// { name: bytes just after each change }
function truth(namesOf) {
    const sums = {};
    for (const { begin, end, class: k, bytes } of trace.allocations)
        if (used(ROWS[k]))
            for (const [name, part] of namesOf(ROWS[k], k)) {
                sums[name] ??= new Float64Array(trace.changes.length);
                for (let change = begin; change < (end < 0 ? trace.changes.length : end); change++)
                    sums[name][change] += part * bytes;
            }
    return sums;
}

async function open() {
    const page = makePage([trace]);
    const reader = new Reader(page.head, page.base64);
    const quiet = async () => {};
    return new Model(new TraceData(page.head, 0, await reader.trace(0, quiet), (blob, name) => reader.text(blob, name)), 0);
}
const model = await open();

async function shown(by, filter = "", zoom = [0, model.axes.event.hi]) {
    let made = null;
    const bands = new Bands({ get: () => ({ by, filter, zoom, axis: "event" }) }, (source) => { made = source; });
    bands.model = model;
    bands.known = new Map();
    await bands.make();
    return made;
}

const totals = truth(() => [["all", 1]]).all;
const greatest = (sums, from = 0, to = sums.length) => sums.slice(from, to).reduce((a, b) => Math.max(a, b), 0);

for (const by of Object.keys(NAME))
    test(`by ${by}: the ten largest and the rest, at every change`, async () => {
        const sums = truth(NAME[by]);
        const source = await shown(by);
        const ranked = Object.keys(sums).sort((a, b) => greatest(sums[b]) - greatest(sums[a]));
        assert.deepEqual(new Set(source.bands.slice(0, -1).map(({ most }) => most)), new Set(ranked.slice(0, 10).map((name) => greatest(sums[name]))));
        for (let change = trace.changes.length - 1; change >= 0; change -= 3) {
            const now = source.bandsAt(change);
            for (const { label, index } of source.bands.slice(0, -1))
                assert.equal(now[index], sums[label][change], `${label} at ${change}`);
            assert.equal(source.bands.reduce((sum, { index }) => sum + now[index], 0), totals[change]);
        }
        for (const { label, most, at } of source.bands.slice(0, -1))
            assert.deepEqual([most, at], [greatest(sums[label]), sums[label].indexOf(greatest(sums[label]))]);
    });

test("columns of the picture are the moments of the picture by categories", async () => {
    const source = await shown("module");
    const axis = model.axis("step");
    const [own, known] = [source, model].map((one) => one.picture(axis, 2, 5.5, 333));
    assert.deepEqual(own.change, known.change);
    for (let column = 0; column < 333; column++) {
        const stack = source.bands.reduce((sum, { index }) => sum + own.vectors[column * own.width + index], 0);
        assert.equal(stack, known.change[column] < 0 ? 0 : totals[known.change[column]]);
        assert.equal(own.vectors[column * own.width + source.driverAt], known.vectors[column * known.width + model.driverAt]);
    }
});

test("what is largest in the window has bands; what stays keeps its place and colour", async () => {
    const sums = truth(NAME.line);
    const { first_event: from, last_event: to } = trace.steps[2];
    const phase = trace.phases.filter(({ step, kind }) => step === 2 && kind === "backward")[0];
    const source = await shown("line", "", [phase.first, to]);
    const [lo, hi] = [phase.first - 1, to].map((event) => trace.changes.findLastIndex((change) => change.event <= event));
    const inside = (name) => greatest(sums[name], lo, hi);
    const least = Math.min(...source.bands.slice(0, -1).map(({ label }) => inside(label)));
    const others = Object.keys(sums).filter((name) => !source.bands.some(({ label }) => label === name));
    assert.ok(others.length && others.every((name) => inside(name) <= least) && from < phase.first);
    const whole = await shown("line");
    const order = whole.bands.map(({ label }) => label).filter((label) => source.bands.some((band) => band.label === label));
    assert.deepEqual(source.bands.map(({ label }) => label).filter((label) => order.includes(label)), order);
    assert.equal(new Set(source.bands.map(({ name }) => name)).size, source.bands.length);
    for (const label of order.filter((one) => one !== "the rest"))
        assert.equal(whole.bands.find((band) => band.label === label).name, source.bands.find((band) => band.label === label).name, label);
});

for (const by of ["category", "module"])
    test(`by ${by}: what a search finds is one band, of whole classes and of single tensors`, async () => {
        const has = (row) => /layers\.3\b/.test([row.module, row.owner].join(" "));
        const rest = truth((row) => [[has(row) ? "found" : "others", 1]]);
        const source = await shown(by, "Layers.3");
        assert.equal(source.found.label, "“Layers.3”");
        assert.equal(source.found.most, greatest(rest.found));
        for (let change = 0; change < trace.changes.length; change += 7) {
            const now = source.bandsAt(change);
            assert.equal(now[0], rest.found[change]);
            assert.equal(now.subarray(0, source.bands.length).reduce((sum, bytes) => sum + bytes, 0), totals[change]);
        }
        const one = await shown(by, "tied");
        assert.equal(one.found.most, share);
        assert.equal((await shown(by, "no such name")).found.most, 0);
    });

test("by category without a search it is the model itself", async () => {
    assert.equal(await shown("category"), model);
    const never = model.bands.filter(({ ever }) => !ever).map(({ name }) => name);
    const held = new Set(trace.allocations.map(({ class: k }) => ROWS[k].category));
    assert.deepEqual(never.filter((name) => held.has(name)), []);
    assert.deepEqual(model.bands.filter(({ ever }) => ever).map(({ name }) => name).filter((name) => !held.has(name)), []);
});
