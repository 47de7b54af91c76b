import test from "node:test";
import assert from "node:assert/strict";
import fs from "node:fs";
import { makeModel, training, klass, NEVER } from "./parts_model.mjs";
import { mapAt, pinsOf } from "../../analyzer/view/html/page/src/parts/map_layout.js";

const SEGMENT = klass({ kind: "segment", category: "cached", counted: 0, cached: 1, driver: 1 }),
      BLOCK = klass({ category: "activation", owner: "held" });
const MiB = 1 << 20;

function modelOf(pieces, blocks, more) {
    return makeModel([SEGMENT, BLOCK],
        [
            ...pieces.map((one) => ({ klass: 0, begin: 0, end: NEVER, ...one })),
            ...blocks.map((one) => ({ klass: 1, begin: 0, end: NEVER, ...one }))
        ],
        more);
}

test("holes, pins and sums are those of vramtrace frag", () => {
    const told = JSON.parse(fs.readFileSync(new URL("parts_frag.json", import.meta.url)));
    const blocks = told.segments.flatMap((segment) => segment.blocks.map((block) => ({
        begin: block.made_event,
        end: block.freed_event ?? NEVER,
        bytes: block.bytes,
        address: block.address
    })));
    const model = modelOf(told.segments.map(({ address, bytes }) => ({ address, bytes })), blocks, { peakWithin: 1 });
    const found = mapAt(model, told.event);
    assert.equal(found.segments.length, told.segments.length);
    for (const [ours, theirs] of [["reserved", "reserved_bytes"], ["blockBytes", "block_bytes"],
             ["holeBytes", "hole_bytes"], ["largestHole", "largest_hole_bytes"], ["emptyBytes", "empty_bytes"],
             ["keptBytes", "kept_bytes"]])
        assert.equal(found[ours], told[theirs], theirs);
    found.segments.forEach((segment, i) => {
        assert.deepEqual(segment.holes, told.segments[i].holes);
        assert.equal(segment.pin?.address, told.segments[i].pin[0]?.address);
    });
});

test("at every change, blocks and holes sum to what is reserved, and to what the state says", () => {
    const run = training(6, 3), model = makeModel(run.classes, run.allocations, run);
    for (let change = 0; change < model.changes; change++) {
        const found = mapAt(model, change), state = model.state(change);
        assert.equal(found.blockBytes + found.holeBytes, found.reserved);
        assert.equal(found.blockBytes, state.block_bytes);
        assert.equal(found.holeBytes, state.categories[model.categories.findIndex((one) => one.name === "cached")]);
        assert.equal(found.emptyBytes + found.keptBytes, found.holeBytes);
        assert.deepEqual(found.outside, []);
    }
});

test("pieces that a block crosses are one segment; others are not joined", () => {
    const pieces = [
        { address: 100 * MiB, bytes: 20 * MiB }, { address: 120 * MiB, bytes: 20 * MiB },
        { address: 200 * MiB, bytes: 20 * MiB }
    ];
    const apart =
        mapAt(modelOf(pieces, [{ address: 100 * MiB, bytes: 20 * MiB }, { address: 120 * MiB, bytes: 4 * MiB }]), 0);
    assert.deepEqual(apart.segments.map((segment) => segment.bytes / MiB), [20, 20, 20]);
    const joined = mapAt(modelOf(pieces, [{ address: 110 * MiB, bytes: 20 * MiB }]), 0);
    assert.deepEqual(joined.segments.map((segment) => [segment.bytes / MiB, segment.pieces]), [[40, 2], [20, 1]]);
    assert.deepEqual(joined.segments[0].holes.map((hole) => hole.bytes / MiB), [10, 10]);
});

test("lines that pin segments: each segment with free memory counts once", () => {
    const run = training(6, 3), model = makeModel(run.classes, run.allocations, run),
          found = mapAt(model, model.changes - 1), lines = pinsOf(found);
    assert.ok(lines.length > 0);
    assert.equal(lines.reduce((sum, line) => sum + line.kept, 0), found.keptBytes);
});

test("blocks of no known segment are told apart", () => {
    const found = mapAt(modelOf([{ address: 100 * MiB, bytes: MiB }],
                            [{ address: 50 * MiB, bytes: MiB }, { address: 300 * MiB, bytes: MiB }]),
        0);
    assert.equal(found.outside.length, 2);
    assert.equal(found.emptyBytes, MiB);
});
