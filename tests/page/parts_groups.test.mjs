import test from "node:test";
import assert from "node:assert/strict";
import { makeModel, training, klass, NEVER, CATEGORIES } from "./parts_model.mjs";
import {
    aliveByClass,
    groupBy,
    blockRows,
    compare,
    treeOf,
    ownersOf,
    within,
    WAYS
} from "../../analyzer/view/html/page/src/parts/groups.js";
import { placeIn } from "../../analyzer/view/html/page/src/parts/stacks.js";

const run = training(6, 4), model = makeModel(run.classes, run.allocations, run);
const sum = (rows, field = "bytes") => rows.reduce((total, row) => total + row[field], 0);

test("every way to group sums to what is in use, at every change", () => {
    for (let change = 0; change < model.changes; change++) {
        const used = model.state(change).used_bytes, entries = aliveByClass(model, change);
        for (const [by] of WAYS)
            assert.equal(
                sum(by === "block" ? blockRows(model, change) : groupBy(entries, by)), used, `${by} at ${change}`);
    }
});

test("groups by category are those of the state", () => {
    const state = model.state(model.peak);
    for (const row of groupBy(aliveByClass(model, model.peak), "category"))
        assert.equal(row.bytes, state.categories[CATEGORIES.indexOf(row.name)], row.name);
});

test("leaves of the tree sum to what is in use at A and at B", () => {
    const a = model.peak, b = model.changes - 1;
    const tree = treeOf(aliveByClass(model, a), aliveByClass(model, b));
    const leaves = (node) => (node.children.size ? [...node.children.values()].flatMap(leaves) : [node]);
    assert.equal(sum(leaves(tree)), model.state(a).used_bytes);
    assert.equal(sum(leaves(tree), "b"), model.state(b).used_bytes);
    const check = (node) => {
        if (!node.children.size)
            return;
        assert.equal(sum([...node.children.values()]), node.bytes, node.name);
        assert.equal(sum([...node.children.values()], "b"), node.b, node.name);
        node.children.forEach(check);
    };
    check(tree);
});

test("what lies below a node sums to it, by any way, at A and at B", () => {
    const tree = treeOf(aliveByClass(model, model.peak), aliveByClass(model, model.changes - 1));
    const walk = (node) => {
        for (const [by] of WAYS.slice(0, -1)) {
            assert.equal(sum(groupBy(within(node, 0), by)), node.bytes, `${by} in ${node.name}`);
            assert.equal(sum(groupBy(within(node, 1), by)), node.b, `${by} in ${node.name}`);
        }
        node.children.forEach(walk);
    };
    walk(tree);
    assert.equal(placeIn(tree, { key: "nowhere", parent: tree.children.get("parameter") }).name, "parameter");
});

test("tensors that share a block count with their shares; the rest is named as such", () => {
    const shared = klass({
        category: "parameter",
        owner: "flat",
        tensors: [
            { name: "a", role: "parameter", share_bytes: 600, bytes: 600 },
            { name: "b", role: "parameter", share_bytes: 300, bytes: 600 }
        ]
    });
    const one = makeModel(
        [shared], [{ klass: 0, begin: 0, end: NEVER, bytes: 1000 }, { klass: 0, begin: 1, end: 2, bytes: 1000 }]);
    const rows = groupBy(aliveByClass(one, 1), "owner");
    assert.deepEqual(rows.map((row) => [row.name, row.bytes, row.blocks]),
        [["a", 1200, 2], ["b", 600, 2], ["not in a known tensor", 200, 2]]);
    assert.deepEqual(groupBy(aliveByClass(one, 1), "module").map((row) => [row.bytes, row.blocks]), [[2000, 2]]);
});

test("shares larger than the block are not believed", () => {
    const parts = ownersOf({
        label: "whole",
        klass: klass({ owner: "whole", tensors: [{ name: "a", share_bytes: 5000 }] }),
        bytes: 1000,
        blocks: 1
    });
    assert.deepEqual(parts.map((part) => [part.name, part.bytes]), [["whole", 1000]]);
});

test("the difference of two instants has every row of both", () => {
    const a = model.peak, b = model.changes - 1;
    for (const [by] of WAYS.slice(0, -1)) {
        const rows = compare(groupBy(aliveByClass(model, a), by), groupBy(aliveByClass(model, b), by));
        assert.equal(sum(rows, "change"), model.state(b).used_bytes - model.state(a).used_bytes, by);
        assert.equal(sum(rows, "a"), model.state(a).used_bytes, by);
        assert.equal(sum(rows, "b"), model.state(b).used_bytes, by);
    }
});

test("names of the trace are never taken for something of the language", () => {
    const names = ["__proto__", "constructor", "toString", "", "</script>", "\u202e"];
    const classes = names.map((label) => klass({ category: "activation", owner: label, module: label }));
    const one = makeModel(classes, names.map((_, i) => ({ klass: i, begin: i, end: NEVER, bytes: 10 + i })));
    for (const by of ["owner", "module"]) {
        const rows = groupBy(aliveByClass(one, names.length - 1), by);
        const expected = names.map((name) => (by === "owner" && !name ? "activation" : name));
        assert.deepEqual(rows.map((row) => row.name).sort(), expected.sort());
        assert.equal(sum(rows), one.state(names.length - 1).used_bytes);
    }
});

test("owners without a name are called as in the report", () => {
    const told = [
        [{ category: "activation", module: "layers.3" }, "layers.3 · activation"],
        [{ category: "optimizer_state", place: { name: "train.py:88 main" } }, "train.py:88 main · optimizer state"],
        [{ category: "workspace", place: { name: "train.py:88 main" } }, "workspace"], [{ category: "unknown" }, ""],
        [{ category: "parameter", module: "m", owner: "m.weight" }, "m.weight"]
    ];
    const one = makeModel(
        told.map(([fields]) => klass(fields)), told.map((_, i) => ({ klass: i, begin: 0, end: NEVER, bytes: i + 1 })));
    const rows = groupBy(aliveByClass(one, 0), "owner");
    assert.deepEqual(rows.map((row) => row.name), told.map(([, name]) => name).reverse());
});
