import test from "node:test";
import assert from "node:assert/strict";
import { makeModel, klass, NEVER, training } from "./parts_model.mjs";
import { aliveByClass, compare, groupBy, treeOf } from "../../analyzer/view/html/page/src/parts/groups.js";
import { eachText, foldModules, foldNames, gather, parse } from "../../analyzer/view/html/page/src/parts/fold.js";
import * as format from "../../analyzer/view/html/page/src/format.js";

const MiB = 1 << 20;
const node = (name, bytes, module_class = "") => ({ key: name, name, bytes, entry: { klass: { module_class } } });
const nodes = (...list) => list.map((one) => node(...one));
// {name: [how many, bytes, what is inside]}
const shown = (list) => Object.fromEntries(list.map((one) => [one.itself ? `${one.name} itself` : one.name,
    one.children?.size ? [one.count ? eachText(format, one) : "", one.bytes, shown([...one.children.values()])] : one.bytes]));
const names = (list) => foldNames(list).map((one) => one.name);

test("the numbers of a name are those that tell instances apart", () => {
    const told = [
        ["layers.3.mlp", ["layers.", ".mlp"], [3]], ["layer1.0.bn2", ["layer1.", ".bn2"], [0]], ["12", ["", ""], [12]], ["", [""], []],
        ["EncoderLayer#3 > Dropout#2", ["EncoderLayer#", " > Dropout#", ""], [3, 2]], ["layers.3 > 7", ["layers.", " > 7"], [3]],
        ["layers.3 · exp_avg.4", ["layers.", " · exp_avg.4"], [3]], ["a.py:3 main", ["a.py:3 main"], []], ["x.123456789", ["x.123456789"], []]
    ];
    for (const [name, texts, numbers] of told)
        assert.deepEqual(parse(name), { texts, numbers }, name);
});

test("names that differ in numbers alone are one, with the range of the numbers", () => {
    const weights = (numbers, bytes = 4) => nodes(...numbers.map((number) => [`layers.${number}.weight`, bytes]));
    assert.deepEqual(names(weights([2, 0, 1, 10, 9, 8, 7, 6, 5, 4, 3])), ["layers.0–10.weight"]);
    assert.deepEqual(names(weights([3, 1])), ["layers.1,3.weight"]);
    assert.deepEqual(names(weights([1, 7, 3, 5])), ["layers.1…7.weight"]);
    assert.deepEqual(names(weights([5])), ["layers.5.weight"]);
    const shapes = weights([0, 1, 2]).map((one, i) => ({ ...one, part: { shape: i ? "4x4" : "4x8" } }));
    assert.deepEqual(names(shapes), ["layers.0.weight", "layers.1–2.weight"]);
});

test("how large each is, as the report says it", () => {
    const told = [
        [[32, 32, 32], "3 × 32 MiB"], [[30, 32], "2 × 30.0–32.0 MiB"], [[0.5, 100.5], "2 × 0–100 MiB"], [[0.001, 1.2], "2 × <0.01–1.20 MiB"],
        [[1.2, 1.201], "2 × 1.20 MiB"], [[0, 0], "2 ×"]
    ];
    for (const [sizes, text] of told)
        assert.equal(eachText(format, foldNames(sizes.map((size, i) => node(`layers.${i}`, Math.round(size * MiB))))[0]), text);
});

test("modules are a tree; layers with the same parts are one, whatever their sizes", () => {
    const layers = nodes(...[0, 1, 2].flatMap((i) => [[`encoder.layers.${i}.attn`, 10], [`encoder.layers.${i}.mlp`, 20 + i]]));
    const layer = (i) => [`encoder.layers.${i}`, ["", 30 + i, { [`encoder.layers.${i}.attn`]: 10, [`encoder.layers.${i}.mlp`]: 20 + i }]];
    assert.deepEqual(shown(foldModules([...layers, ...nodes(["head", 7], ["", 5])])), {
        "encoder.layers.0–2": ["3 × 30–32 B", 93, Object.fromEntries([0, 1, 2].map(layer))], head: 7, "": 5
    });
    // What a container holds itself is one of its parts; a layer without a part, or with another class, is not alike.
    assert.deepEqual(shown(foldModules([...layers, ...nodes(["encoder", 1], ["encoder.layers.3.attn", 10])])), {
        encoder: ["", 104, {
            "encoder.layers": ["", 103, {
                "encoder.layers.0–2": ["3 × 30–32 B", 93, Object.fromEntries([0, 1, 2].map(layer))], "encoder.layers.3.attn": 10
            }],
            "encoder itself": 1
        }]
    });
    assert.deepEqual(shown(foldModules(nodes(["net.0", 4, "Linear"], ["net.1", 4, "ReLU"], ["net.2", 4, "Linear"]))),
        { net: ["", 12, { "net.0,2": ["2 × 4 B", 8, { "net.0": 4, "net.2": 4 }], "net.1": 4 }] });
});

test("two modules of one class in a block have different roles if they differ in size", () => {
    const block = (i) => [[`Block#${i} > Linear#1`, 4, "Linear"], [`Block#${i} > Linear#2`, 16, "Linear"]];
    const one = (i) => [`Block#${i}`, ["", 20, { [`Block#${i} > Linear#1`]: 4, [`Block#${i} > Linear#2`]: 16 }]];
    assert.deepEqual(shown(foldModules(nodes(...block(1), ...block(2)))), { "Block#1–2": ["2 × 20 B", 40, Object.fromEntries([one(1), one(2)])] });
    assert.deepEqual(shown(foldModules(nodes(["Block > Linear#1", 4], ["Block > Linear#2", 4]))),
        { "Block > Linear#1–2": ["2 × 4 B", 8, { "Block > Linear#1": 4, "Block > Linear#2": 4 }] });
});

test("ten thousand owners are one, opened in portions of a hundred", () => {
    const [all] = foldNames(Array.from({ length: 10000 }, (_, i) => node(`table.${9999 - i}`, 2 * MiB)));
    assert.equal(`${all.name}: ${eachText(format, all)}`, "table.0–9999: 10,000 × 2 MiB");
    assert.equal(all.bytes, 20000 * MiB);
    const portions = [...all.children.values()];
    assert.deepEqual([portions.length, portions[37].name, eachText(format, portions[37])], [100, "table.3700–3799", "100 × 2 MiB"]);
    assert.deepEqual([...portions[37].children.keys()].slice(0, 2), ["table.3700", "table.3701"]);
    // Without numbers in their names too, but not what is large.
    const [large, small] = gather([...Array.from({ length: 150 }, (_, i) => node(`word ${String.fromCharCode(97 + i % 26).repeat(1 + i / 26)}`, 1)), node("all", 1000)]);
    assert.deepEqual([large.name, small.name, small.count, small.children.size], ["all", "word a … word zzzzz", 150, 15]);
});

test("names that look like a fold, and names of any depth, lose nothing", () => {
    const list = nodes(["a.0", 1], ["a.1", 2], ["a.0–1", 4], ["in a", 8], ["a", 16], ["fold a.0", 32], [".", 64], ["..", 128], ["x.".repeat(5000), 256]);
    const sum = (all) => all.reduce((total, one) => total + (one.children?.size ? sum([...one.children.values()]) : one.bytes), 0);
    for (const fold of [foldModules, foldNames]) {
        assert.equal(fold(list).reduce((total, one) => total + one.bytes, 0), 511);
        assert.equal(sum(fold(list)), 511);
    }
});

test("the tree and the table fold alike at every moment, and sum to what is in use", () => {
    const classes = [0, 1, 2].flatMap((i) => ["attn", "mlp"].map((part) => klass({ category: "activation", module: `layers.${i}.${part}` })));
    const model = makeModel(classes, classes.map((_, i) => ({ klass: i, begin: i, end: i ? NEVER : 8, bytes: 100 + i % 2 })));
    const expected = [
        ["layers.0.attn"], ["layers.0"], ["layers"], ["layers.0–1"], ["layers"], ["layers.0–2"], ["layers.0–2"], ["layers.0–2"], ["layers"]
    ];
    expected.forEach((wanted, change) => {
        const entries = aliveByClass(model, change), rows = foldModules(groupBy(entries, "module"));
        const [activation] = treeOf(entries, null).children.values();
        assert.deepEqual(rows.map((row) => row.name), wanted, change);
        assert.deepEqual([...activation.children.values()].map((one) => one.name), wanted, change);
        for (const all of [rows, [activation]])
            assert.equal(all.reduce((sum, one) => sum + one.bytes, 0), model.state(change).used_bytes);
    });
});

test("differences of what is folded sum to the difference of two moments", () => {
    const run = training(6, 4), model = makeModel(run.classes, run.allocations, run), last = model.changes - 1;
    for (const [by, fold] of [["module", foldModules], ["owner", foldNames]]) {
        const rows = fold(compare(groupBy(aliveByClass(model, model.peak), by), groupBy(aliveByClass(model, last), by)));
        assert.ok(rows.some((row) => row.count > 1));
        assert.equal(rows.reduce((sum, row) => sum + row.change, 0), model.state(last).used_bytes - model.state(model.peak).used_bytes);
        for (const row of rows)
            assert.equal(row.change, row.b - row.a);
    }
});
