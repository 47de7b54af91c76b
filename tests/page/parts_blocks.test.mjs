import test from "node:test";
import assert from "node:assert/strict";
import { makeModel, training, klass } from "./parts_model.mjs";
import {
    gather,
    stack,
    bandAt,
    columnAt,
    ranges,
    offsetOf,
    MOST_BLOCKS
} from "../../analyzer/view/html/page/src/parts/blocks_layout.js";
import { isUsed } from "../../analyzer/view/html/page/src/parts/view.js";

const run = training(6, 4), model = makeModel(run.classes, run.allocations, run);
const keepOf = (one) => Uint8Array.from(one.classes, (each) => (isUsed(each) ? 1 : 0));
const go = async () => false;
const everyNth = (n, from = 0) =>
    Array.from({ length: Math.floor((model.changes - from) / n) }, (_, i) => from + i * n);

test("blocks seen at a column sum to what is in use at its sample", async () => {
    for (const [samples, least] of [
             [everyNth(1), 0], [everyNth(7), 0], [everyNth(3, 40), 5 << 20], [everyNth(1), 1e12]]) {
        const found = await gather(model, samples, keepOf(model), go), { level, bands } = stack(model, found, least);
        assert.ok(found.single);
        samples.forEach((change, c) => {
            assert.equal(level[c], model.state(change).used_bytes, `column ${c}`);
            const heights = bands.filter((band) => c >= band.first && c < band.until)
                                .map((band) => (band.heights ? band.heights[c] : band.bytes));
            assert.equal(heights.reduce((sum, value) => sum + value, 0), level[c]);
        });
    }
});

test("what is not seen is counted: seen and unseen are all that were alive in between", async () => {
    const samples = everyNth(9), last = samples[samples.length - 1],
          found = await gather(model, samples, keepOf(model), go);
    const alive =
        run.allocations.filter((one) => isUsed(run.classes[one.klass]) && one.begin <= last && one.end > samples[0]);
    assert.equal(found.seen + found.unseen, alive.length);
    assert.ok(found.unseen > 0);
});

test("bands do not overlap, and a point finds the one that is drawn there", async () => {
    const samples = everyNth(5), found = await gather(model, samples, keepOf(model), go),
          { bands, level } = stack(model, found, 0);
    for (let c = 0; c < samples.length; c += 3) {
        const there = bands.filter((band) => c >= band.first && c < band.until)
                          .sort((a, b) => a.bottom[c - a.first] - b.bottom[c - b.first]);
        let top = 0;
        for (const band of there) {
            assert.equal(band.bottom[c - band.first], top);
            assert.equal(bandAt(bands, c, top + band.bytes / 2), band);
            top += band.bytes;
        }
        assert.equal(top, level[c]);
        assert.equal(bandAt(bands, c, top + 1), null);
    }
});

function many(count) {
    const classes = Array.from(
              { length: 2500 }, (_, i) => klass({ category: i % 2 ? "activation" : "temporary", owner: `c${i}` })),
          allocations = [];
    for (let i = 0; i < count; i++)
        allocations.push({ klass: i % 2500, begin: i, end: i + 50 + (i % 7), bytes: 512 * (1 + (i % 5)) });
    const one = makeModel(classes, allocations, { peakWithin: 1 });
    one.alive = (change) => Uint32Array.from(allocations.keys())
                                .filter((i) => allocations[i].begin <= change && change < allocations[i].end);
    return [one, allocations];
}

test("too many blocks are bands by class, which sum to the same", async () => {
    const [one, allocations] = many(MOST_BLOCKS + 5000), samples = Array.from({ length: 1200 }, (_, i) => i * 20);
    const found = await gather(one, samples, keepOf(one), go), { level, bands } = stack(one, found, 0);
    assert.equal(found.single, false);
    assert.ok(bands.length <= 320);
    for (const c of [0, 1, 600, 1199]) {
        const used = allocations.reduce(
            (sum, { begin, end, bytes }) => sum + (begin <= samples[c] && samples[c] < end ? bytes : 0), 0);
        assert.equal(level[c], used);
        assert.equal(bands.reduce((sum, band) => sum + band.heights[c], 0), used);
    }
    assert.equal(bands.reduce((sum, band) => sum + band.blocks, 0), found.seen);
});

test("gathering that is not wanted any more gives up", async () => {
    const [one] = many(3);
    one.bornIn = () => [1, 3];
    const big = {
        ...one,
        bornIn: () => [0, 450000],
        begin: new Uint32Array(450000),
        end: new Uint32Array(450000).fill(5),
        klass: new Uint32Array(450000),
        bytes: () => 1,
        alive: () => []
    };
    let pauses = 0;
    assert.equal(await gather(big, [0, 1], Uint8Array.of(1), async () => ++pauses === 2), null);
    assert.equal(pauses, 2);
});

test("columns and addresses are found by their borders", () => {
    assert.deepEqual([0, 1, 2, 5, 6].map((change) => columnAt([1, 2, 2, 5], change)), [0, 0, 1, 3, 4]);
    const found = ranges([{ address: 1000, bytes: 100 }, { address: 5000, bytes: 50 }, { address: 1050, bytes: 100 }]);
    assert.deepEqual(found,
        { ranges: [{ address: 1000, bytes: 150, offset: 0 }, { address: 5000, bytes: 50, offset: 150 }], bytes: 200 });
    assert.deepEqual([999, 1000, 1149, 1150, 5049, 5050].map((address) => offsetOf(found.ranges, address)),
        [-1, 0, 149, -1, 199, -1]);
});
