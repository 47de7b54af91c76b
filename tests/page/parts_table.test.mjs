import test from "node:test";
import assert from "node:assert/strict";
import fs from "node:fs";
import { makeModel, training } from "./parts_model.mjs";
import { sortRows, searchRows, toTsv } from "../../analyzer/view/html/page/src/parts/table.js";
import { visible } from "../../analyzer/view/html/page/src/dom.js";
import { pick, shortened } from "../../analyzer/view/html/page/src/parts/tiles.js";
import { treeOf, aliveByClass } from "../../analyzer/view/html/page/src/parts/groups.js";
import { byFile } from "../../analyzer/view/html/page/src/parts/source.js";
import { greatest } from "../../analyzer/view/html/page/src/greatest.js";
import { noLeakText } from "../../analyzer/view/html/page/src/parts/leaks.js";
import { mostGiven, usedOf } from "../../analyzer/view/html/page/src/parts/ranks.js";

const NAME = {
    id: "name",
    title: "Name",
    kind: "name",
    value: (row) => row.name
},
      BYTES = {
          id: "bytes",
          title: "Bytes",
          kind: "bytes",
          value: (row) => row.bytes
      };
const rows = [["layers.10", 5], ["layers.9", 7], ["", 7], ["=HYPERLINK(1)\t\n\u202eevil", null]].map(
    ([name, bytes]) => ({ name, bytes }));

test("sorting: numbers in names by value, unknown last both ways, equals keep their order", () => {
    const order = (column, descending) => sortRows(rows, column, descending).map((row) => rows.indexOf(row));
    assert.deepEqual(order(BYTES, true), [1, 2, 0, 3]);
    assert.deepEqual(order(BYTES, false), [0, 1, 2, 3]);
    assert.deepEqual(order(NAME, false), [3, 1, 0, 2]);
    assert.deepEqual(order(NAME, true), [0, 1, 3, 2]);
});

test("sorting by something else than what is shown: addresses in hexadecimal by value", () => {
    const found = [0x7f96a7e40000, 0x7f96a6000000, 0x7f96aa000000, 0x2000].map((address) => ({ address }));
    const column = { id: "address", kind: "text", value: (row) => `0x${row.address.toString(16)}`, order: (row) => row.address };
    assert.deepEqual(sortRows(found, column, false).map((row) => row.address), [0x2000, 0x7f96a6000000, 0x7f96a7e40000, 0x7f96aa000000]);
});

test("a search finds rows that have all words, in any case", () => {
    assert.deepEqual(searchRows(rows, [NAME, BYTES], "LAYERS 9").map((row) => row.name), ["layers.9"]);
    assert.equal(searchRows(rows, [NAME, BYTES], "  ").length, rows.length);
    assert.equal(searchRows(rows, [NAME, BYTES], "7").length, 0);
});

test("copied tables have one line a row, as many cells as columns, and no formulas", () => {
    const lines = toTsv(rows, [NAME, BYTES]).split("\n");
    assert.equal(lines.length, rows.length + 2);
    assert.equal(lines[0], "Name\tBytes (bytes)");
    for (const line of lines.slice(0, -1))
        assert.equal(line.split("\t").length, 2);
    assert.ok(lines[4].startsWith("'=HYPERLINK(1)‹U+0009›‹U+000A›‹U+202E›evil"));
});

test("what cannot be seen is made visible; other text stays as it is", () => {
    assert.equal(visible("a\u202eb\u0007\ud800c"), "a‹U+202E›b‹U+0007›\ufffdc");
    for (const text of ["😀 naïve 模型", "x".repeat(10000), "<script>&amp;", "👩‍👩‍👧"])
        assert.equal(visible(text), text);
});

test("names of modules lose their beginning in a small tile, other names do not", () => {
    for (const [letters, text] of [[30, "encoder.layers.0.dropout1"], [25, "encoder.layers.0.dropout1"], [24, "…layers.0.dropout1"], [17, "…0.dropout1"], [12, "…0.dropout1"], [11, "…0.dropout1"], [10, "…dropout1"], [9, "…dropout1"], [8, "dropout1"], [2, "dropout1"]])
        assert.equal(shortened("encoder.layers.0.dropout1", letters), text);
    for (const name of ["head", "a.py:3 main · activation", "", ".", "..."])
        assert.ok(shortened(name, 1).endsWith(name.split(".").pop()));
});

test("tiles of a tree sum to what is in use, with what is too small", () => {
    const run = training(40, 3), model = makeModel(run.classes, run.allocations, {...run, peakWithin: 200 });
    const tree = treeOf(aliveByClass(model, model.peak), null),
          leaves = (tile) => (tile.children.length ? tile.children.flatMap(leaves) : [tile]);
    for (const depth of [1, 2, 3, 4])
        assert.equal(leaves(pick(tree, (node) => node.bytes, depth)).reduce((sum, tile) => sum + tile.value, 0),
            model.state(model.peak).used_bytes);
});

test("files and lines of source sum to what is in use", () => {
    const run = training(6, 2), model = makeModel(run.classes, run.allocations, run),
          files = byFile(aliveByClass(model, model.peak)), used = model.state(model.peak).used_bytes;
    const sum = (list) => list.reduce((total, one) => total + one.bytes, 0);
    assert.equal(sum(files), used);
    assert.equal(sum(files.flatMap((file) => [...file.lines.values()])), used);
});

test("no list becomes the arguments of a call that may overflow the stack", () => {
    const folder = new URL("../../analyzer/view/html/page/src/", import.meta.url);
    for (const name of fs.readdirSync(folder, { recursive: true }).filter((path) => path.endsWith(".js"))) {
        const found = fs.readFileSync(new URL(name, folder), "utf8").match(/\b(Math\.(max|min)|push|unshift|splice|fromCharCode)\(([^;{}]*[,\s])?\.\.\..*/);
        assert.equal(found?.[0], undefined, name);
    }
});

test("the greatest of more numbers than a call has arguments", () => {
    assert.equal(greatest(Array.from({ length: 500000 }, (_, i) => i % 1000)), 999);
    assert.equal(greatest([], 1), 1);
});

test("why there is no leak", () => {
    const format = { count: String, change: (bytes) => `+${bytes} B` };
    assert.equal(noLeakText(40, "", null, format), "No leak in 40 steps.");
    assert.equal(noLeakText(40, "", 2048, format), "No leak in 40 steps: memory at the start of a step, later half against earlier: +2048 B.");
    assert.equal(noLeakText(1, "1 step: too few.", null, format), "1 step: too few.");
});

test("what is in use in an overview leaves out the cache, the context and the host", () => {
    assert.deepEqual(usedOf({
        t_ns: [0, 1],
        categories: { activation: [1, 2], input: [10, 20], cached: [9, 9], context: [9, 9], host_pinned: [9, 9] }
    }),
        [11, 22]);
});

test("what the driver gave leaves out the context, which has what other ranks had then", () => {
    assert.equal(mostGiven({ t_ns: [0, 1, 2], driver_bytes: [100, 130, 90], categories: { context: [60, 95, 0] } }), 90);
    assert.equal(mostGiven({ t_ns: [0, 1], driver_bytes: [5, 7], categories: {} }), 7);
});
