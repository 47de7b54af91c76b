// Names that differ only in their numbers, as one: "layers.0–5". The terminal's report reads names by the same rules
// (analyzer/report/modules.c).
//
// A node is anything with a key, a name and bytes: a row of a table, a node of a tree. Of several nodes that are shown as one,
// `count`, `low` and `high` say how many and how large they are, and `children` has them: sums of children are always the node's.
import { made } from "../made.js";

const MANY = 100;    // children at once: more are opened in portions
const SMALL = 0.004; // of what contains it
const LEVELS = 32;
const SUMMED = ["bytes", "blocks", "a", "b", "change", "blocksB"];

/** "layers.3.mlp" as { texts: ["layers.", ".mlp"], numbers: [3] }: the numbers that tell instances apart, and what is around. */
export const parse = (name) => made(parsed, name, takeApart);
const parsed = new Map(); // names are asked for at every moment

function takeApart(name) {
    const role = name.indexOf(" · "), path = role < 0 ? name : name.slice(0, role), numbers = [], texts = [""];
    path.split(/(\.| > )/).forEach((piece, i, pieces) => {
        const found = i % 2 || !/\d$/.test(piece) ? null : piece.match(pieces[i - 1] === " > " ? /^([^]*#)(\d{1,8})$/ : /^([^]*#|)(\d{1,8})$/);
        texts[texts.length - 1] += found ? found[1] : piece;
        if (found) {
            numbers.push(Number(found[2]));
            texts.push("");
        }
    });
    texts[texts.length - 1] += name.slice(path.length);
    return { texts, numbers };
}

/** "3", "0–31", "1,3", or "1…7" where some are missing. */
function range(numbers) {
    const all = [...new Set(numbers)].sort((a, b) => a - b), low = all[0], high = all.at(-1);
    if (all.length <= 3 && all.length !== high - low + 1)
        return all.join(",");
    return low === high ? `${low}` : `${low}${all.length === high - low + 1 ? "–" : "…"}${high}`;
}

function commonName(nodes) {
    const names = nodes.map((node) => parse(node.name)), [{ texts }] = names, pattern = texts.join("\0");
    if (names.some((one) => one.texts.join("\0") !== pattern))
        return `${nodes[0].name} … ${nodes.at(-1).name}`;
    return texts.map((text, i) => (i ? range(names.map(({ numbers }) => numbers[i - 1])) + text : text)).join("");
}

/** Several nodes as one that contains them. */
export function joined(nodes, more) {
    const largest = nodes.reduce((most, node) => (node.bytes > most.bytes ? node : most));
    const all = { ...largest, count: 0, itself: false, entries: null, ...more, children: new Map(nodes.map((node) => [node.key, node])) };
    for (const field of SUMMED)
        if (field in all)
            all[field] = nodes.reduce((sum, node) => sum + node[field], 0);
    if (all.categories) {
        all.categories = new Map();
        for (const node of nodes)
            for (const [category, bytes] of node.categories)
                all.categories.set(category, (all.categories.get(category) || 0) + bytes);
    }
    return all;
}

function fold(nodes, key = `fold ${nodes[0].key}`) {
    if (nodes.length === 1)
        return nodes[0];
    let portion = 1;
    while (nodes.length / portion > MANY)
        portion *= 10;
    const inside = portion === 1 ? nodes
        : Array.from({ length: Math.ceil(nodes.length / portion) }, (_, i) => fold(nodes.slice(i * portion, (i + 1) * portion), `${key} ${portion}.${i}`));
    return joined(inside, {
        key, name: commonName(nodes), count: nodes.length,
        low: nodes.reduce((least, { bytes }) => Math.min(least, bytes), Infinity), high: nodes.reduce((most, { bytes }) => Math.max(most, bytes), 0),
    });
}

/** The nodes that are alike by `keyOf`, each group as one; a key of null is like no other. */
function foldBy(nodes, keyOf) {
    const groups = new Map();
    for (const node of nodes)
        made(groups, keyOf(node) ?? node, () => []).push(node);
    return [...groups.values()].map((group) => {
        const numbers = new Map(group.length > 1 ? group.map((node) => [node, parse(node.name).numbers]) : []);
        return fold(group.sort((a, b) => {
            const [of, other] = [numbers.get(a), numbers.get(b)], at = of.findIndex((number, i) => number !== other[i]);
            return at < 0 ? 0 : of[at] - other[at];
        }));
    });
}

/** Nodes whose names differ in numbers alone, and that are of one kind: the same role, type and shape. */
export function foldNames(nodes) {
    return foldBy(nodes, ({ name, part, entry, kind }) => {
        const { texts } = parse(name);
        return texts.length > 1 ? JSON.stringify([texts, part?.role, part?.dtype, part?.shape, entry?.klass.category, kind]) : null;
    });
}

/** Modules as the tree that their names are: containers with all that is inside, repeated ones with the same parts as one. Keys of
 * containers begin with `mark`. */
export function foldModules(nodes, mark = "in") {
    const root = { name: "", inside: new Map(), item: null };
    for (const node of nodes) {
        const pieces = node.name.split(/(?=\.)|(?= > )/), rest = pieces.slice(LEVELS).join("");
        let at = root;
        for (const piece of rest ? [...pieces.slice(0, LEVELS), rest] : pieces.length ? pieces : [""]) {
            const { name, inside } = at;
            at = made(inside, piece, () => ({ name: name + piece, inside: new Map(), item: null }));
        }
        at.item = node;
    }
    return insideOf(root, mark, new Map()).nodes;
}

/* What is in a level: its nodes, folded, and what makes levels alike: their parts and classes, not the sizes. But two modules of
 * one class that contain nothing and differ in size have different roles: "Linear#1" and "Linear#2". `kinds` numbers what is alike. */
function insideOf({ inside }, mark, kinds) {
    const alike = new Map(), told = [];
    for (const [piece, level] of inside) {
        const below = insideOf(level, mark, kinds), { name, item } = level, leaf = !below.nodes.length;
        const texts = /\d$/.test(piece) ? parse(name).texts : [], repeated = texts.length > 1 && texts.at(-1) === "";
        const what = JSON.stringify([item?.entry?.klass.module_class, item?.kind, below.told, leaf && /#\d+$/.test(piece) ? [item.bytes, item.b] : 0]);
        const number = made(kinds, what, () => kinds.size);
        const own = item && !leaf ? [{ ...item, itself: true }] : [];
        const node = leaf ? item : below.nodes.length === 1 && !item ? below.nodes[0] : joined([...below.nodes, ...own], { key: `${mark} ${name}`, name });
        alike.set(node, repeated ? JSON.stringify([texts.at(-2), number]) : null);
        told.push([piece, number]);
    }
    return { nodes: foldBy([...alike.keys()], (node) => alike.get(node)), told: told.sort(([a], [b]) => (a < b ? -1 : 1)) };
}

/** As many as can be told apart: of more, the small ones as one. */
export function gather(nodes) {
    const size = ({ bytes, b = 0 }) => Math.max(bytes, b), whole = nodes.reduce((sum, node) => sum + size(node), 0);
    const small = nodes.filter((node) => size(node) < whole * SMALL);
    if (small.length <= MANY)
        return nodes;
    return [...nodes.filter((node) => size(node) >= whole * SMALL), fold(small.sort((a, b) => (a.name < b.name ? -1 : 1)))];
}

/** "6 × 24.0 MiB", "6 × 20.0–24.0 MiB" */
export function eachText(format, { count, low, high }) {
    return `${format.count(count)} ×${high ? ` ${low === high ? format.bytes(low) : format.range(low, high)}` : ""}`;
}
