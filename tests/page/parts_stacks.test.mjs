// The flame graph against sums over all allocations, without its code.
import test from "node:test";
import assert from "node:assert/strict";
import { makeModel, training, klass, NEVER } from "./parts_model.mjs";
import { aliveByClass } from "../../analyzer/view/html/page/src/parts/groups.js";
import { boxesOf, sumOf, treeOf } from "../../analyzer/view/html/page/src/parts/stacks.js";

const run = training(6, 4), model = makeModel(run.classes, run.allocations, run);
const APART = ["cached", "context", "host_pinned"];
const used = (one, change, from = 0) => one.begin >= from && one.begin <= change && change < one.end && run.classes[one.klass].counted
    && !APART.includes(run.classes[one.klass].category);
const sum = (list, what = "bytes") => list.reduce((total, one) => total + one[what], 0);
const nodesOf = (node) => [node, ...[...node.children.values()].flatMap(nodesOf)];

for (const [native, from] of [[false, 0], [true, 0], [false, 40]])
    test(`every frame has what was allocated below it${native ? ", native ones too" : ""}${from ? ", in a window" : ""}`, () => {
        for (const change of [from + 3, model.peak, model.changes - 1]) {
            const tree = treeOf(aliveByClass(model, change, undefined, from), native);
            const alive = run.allocations.filter((one) => used(one, change, from));
            assert.deepEqual([tree.bytes, tree.blocks], [sum(alive), alive.length]);
            const seen = nodesOf(tree).slice(1).filter(({ frame }) => frame.function);
            for (const node of seen) {
                const above = [];
                for (let one = node; one.frame; one = one.parent)
                    above.push(`${one.frame.function} ${one.frame.line}`);
                const below = alive.filter(({ klass: k }) => {
                    const frames = run.classes[k].stack.filter(({ kind }) => native || kind === "python").map((frame) => `${frame.function} ${frame.line}`);
                    return frames.slice(-above.length).join() === above.join() && frames.length >= above.length;
                });
                assert.deepEqual([node.bytes, node.blocks], [sum(below), below.length], above.join());
                for (const [category, bytes] of node.categories)
                    assert.equal(bytes, sum(below.filter(({ klass: k }) => run.classes[k].category === category)));
            }
            const names = new Set(seen.map(({ frame }) => frame.function));
            assert.deepEqual(names, new Set(alive.length ? ["main", "forward", ...native ? ["c10::alloc"] : []] : []));
        }
    });

const frame = (name, kind = "python") => ({ kind, function: name, file: `/src/${name}.py`, line: 1, name: kind === "python" ? `${name}.py:1 ${name}` : "" });
const [main, walk, leaf, engine] = [frame("main"), frame("walk"), frame("leaf"), frame("engine", "native")];

test("a search counts no stack twice", () => {
    const classes = [[leaf, walk, walk, main], [walk, main], [leaf, main]].map((stack) => klass({ stack, category: "activation" }));
    const one = makeModel(classes, classes.map((_, i) => ({ klass: i, begin: i, end: NEVER, bytes: 10 ** i })));
    const tree = treeOf(aliveByClass(one, 2), false);
    const found = (word) => sumOf(tree, ({ name }) => name.includes(word));
    assert.deepEqual(["walk", "leaf", "main", "py", "none"].map((word) => found(word).bytes), [11, 101, 111, 111, 0]);
    assert.equal(found("walk").blocks, 2);
});

test("what the backward pass made stands below its forward line", () => {
    const classes = [klass({ stack: [engine], forward: [leaf, main] }), klass({ stack: [engine], forward: [] }), klass({ stack: [], forward: [] })];
    const one = makeModel(classes, classes.map((_, i) => ({ klass: i, begin: i, end: NEVER, bytes: 1 })));
    const paths = (native) => nodesOf(treeOf(aliveByClass(one, 2), native)).filter(({ children }) => !children.size).map((node) => {
        const names = [];
        for (let at = node; at.frame; at = at.parent)
            names.unshift(at.frame.function ?? at.name);
        return names.join(" ");
    });
    assert.deepEqual(paths(false), ["main leaf its backward pass", "engine", "no stack recorded"]);
    assert.deepEqual(paths(true), ["main leaf its backward pass engine", "engine", "no stack recorded"]);
});

test("boxes are to scale; what is narrower than a pixel is one box", () => {
    const classes = Array.from({ length: 300 }, (_, i) => klass({ stack: [frame(`leaf${i}`), main] }));
    const sizes = classes.map((_, i) => (i < 3 ? 30000 : 1 + i % 7));
    const one = makeModel(classes, sizes.map((bytes, i) => ({ klass: i, begin: i, end: NEVER, bytes })), { changes: 300 });
    const boxes = boxesOf(treeOf(aliveByClass(one, 299), false), 800), whole = sum(sizes.map((bytes) => ({ bytes })));
    assert.ok(boxes.every(({ wide }) => wide >= 1));
    assert.deepEqual(boxes.filter(({ row }) => row < 2).map(({ x, wide }) => [x, wide]), [[0, 800], [0, 800]]);
    const last = boxes.filter(({ row }) => row === 2);
    assert.deepEqual(last.map(({ rest }) => rest?.length ?? 0), [0, 0, 0, 297]);
    last.slice(0, 3).forEach(({ x, wide }, i) => {
        assert.ok(Math.abs(wide - 800 * 30000 / whole) < 1e-9 && Math.abs(x - i * wide) < 1e-9);
    });
    assert.equal(sum(last[3].rest), whole - 90000);
});
