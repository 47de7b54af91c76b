// What is alive at an instant, grouped. Sums are exact: the groups of each way sum to what is in use, but
// for tensors that have no share of their block, which are listed with 0 bytes.
import { foldModules, foldNames, gather } from "./fold.js";
import { categoryLabel, isPython, isUsed, tellingFrames, frameName } from "./view.js";
import { made } from "../made.js";
import { firstThat } from "../walk.js";

export const WAYS = [
    ["category", "category"], ["module", "module"], ["kind", "module class"], ["owner", "owner"], ["line", "line"],
    ["stack", "stack"], ["op", "operator"], ["block", "block"]
];

/** What is in use at a change, by class: [{index, klass, bytes, blocks, allocation, largest}…]; `allocation` is the
 * largest. `keep(klass)` chooses classes, `from` what began at that change or later. */
export function aliveByClass(model, change, keep = isUsed, from = 0) {
    const entries = new Map(), alive = model.alive(change);
    for (let i = firstThat(alive.length, (at) => model.begin[alive[at]] >= from); i < alive.length; i++) {
        const index = model.klass[alive[i]];
        let entry = entries.get(index);
        if (entry === undefined) {
            const klass = model.classes[index];
            entry = keep(klass) ? newEntry(model, index, klass, alive[i]) : null;
            entries.set(index, entry);
        }
        if (!entry)
            continue;
        const bytes = model.bytes(alive[i]);
        entry.bytes += bytes;
        entry.blocks++;
        if (bytes > entry.largest) {
            entry.largest = bytes;
            entry.allocation = alive[i];
        }
    }
    return [...entries.values()].filter(Boolean);
}

const newEntry = (model, index, klass, allocation) =>
    ({ index, klass, label: labelOf(model, klass), bytes: 0, blocks: 0, allocation, largest: 0 });

const OF_DEVICE = new Set(["workspace", "communication"]); // named by their category alone

/** What held it, without the count, which changes: "list 'history' of main(), 3 items". */
const holderName = (klass) => (klass.held_by || "").replace(/, \d+ items?$/, "");

/** What the report calls the owner of a class without tensors: its label; else what it belongs to, and its category. */
export function labelOf(model, klass) {
    const where = klass.module || (OF_DEVICE.has(klass.category) ? "" : holderName(klass) || placeName(klass));
    if (klass.owner || (!where && klass.category === "unknown"))
        return klass.owner;
    return `${where}${where ? " · " : ""}${categoryLabel(model, klass.category)}`;
}

const shareOf = (tensor) => tensor.share_bytes ?? tensor.shareBytes ?? 0;

/** Who owns an entry's bytes: each tensor with its share, or the label. What no tensor has a share of stays
 * with the label, so that the parts sum to the entry. */
export function ownersOf(entry) {
    if (entry.only)
        return [entry.only];
    const { klass, bytes, blocks } = entry, tensors = klass.tensors || [];
    const sum = tensors.reduce((total, tensor) => total + shareOf(tensor), 0) * blocks;
    const label = (rest) =>
        ({ name: entry.label || "", role: "", module: klass.module, evidence: klass.evidence, bytes: rest, blocks });
    if (!tensors.length || sum > bytes)
        return [label(bytes)];
    const parts = tensors.map((tensor) => ({
        name: tensor.name,
        role: tensor.role,
        module: tensor.module,
        dtype: tensor.dtype,
        shape: tensor.shape,
        evidence: tensor.evidence,
        bytes: shareOf(tensor) * blocks,
        blocks
    }));
    if (sum < bytes)
        parts.push({...label(bytes - sum), name: "not in a known tensor" });
    return parts;
}

const stackNames = new WeakMap();
/** "inner ← outer": Python frames, or what there is. */
export function stackName(frames) {
    return frames?.length ? made(stackNames, frames, () => tellingFrames(frames).map(frameName).join(" ← ")) : "";
}

const stackKeys = new WeakMap();
/* Stacks are one if all their frames, native ones too, have the same functions and lines. */
function stackKey(frames) {
    return frames?.length ? made(stackKeys, frames, () => join(frames.map((frame) => [frame.function, frame.file, frame.line]))) : "";
}

/** Both stacks in words. Autograd's own threads have native frames only, which say less than the operator and the forward's
 * line: "NllLossBackward0, backward of cross_entropy ← train.py:39". */
export function stacksName(klass) {
    const { stack, forward, operator, place } = klass, name = stackName(stack), other = stackName(forward);
    if (!other || other === name)
        return name;
    if (stack.some(isPython) || !forward.some(isPython))
        return `${name}, backward of ${other}`;
    const { function: called, file, line } = tellingFrames(forward)[0], own = file === place?.file && line === place.line;
    const made = own ? place.name : `${called} ← ${place?.name.replace(/ \S+$/, "")}`;
    return `${operator || frameName(stack[0] ?? {})}, backward of ${made}`;
}

const classOf = (klass) => (klass.module && klass.module_class) || "";
const placeName = (klass) => (klass.place && klass.place.name) || "";
const join = (...parts) => JSON.stringify(parts);

/* Each way: the groups that an entry counts in, as {key, name, bytes, blocks}. */
const whole = (entry, key, name) => [{ key, name, bytes: entry.bytes, blocks: entry.blocks }];
const SPLIT = {
    category: (entry) => whole(entry, entry.klass.category, entry.klass.category),
    module: (entry) => whole(entry, entry.klass.module || "", entry.klass.module || ""),
    kind: (entry) => whole(entry, classOf(entry.klass), classOf(entry.klass)),
    op: (entry) => whole(entry, entry.klass.operator || "", entry.klass.operator || ""),
    line: (entry) =>
        whole(entry, join(entry.klass.place && entry.klass.place.file, placeName(entry.klass), entry.klass.phase),
            placeName(entry.klass)),
    stack: (entry) => whole(entry, `${stackKey(entry.klass.stack)}\n${stackKey(entry.klass.forward)}`, stacksName(entry.klass)),
    owner: (entry) =>
        ownersOf(entry).map((part) => ({...part, key: join(part.name, part.role, entry.klass.category) })),
};

function addTo(group, part, entry) {
    group.bytes += part.bytes;
    group.blocks += part.blocks;
    const category = entry.klass.category;
    group.categories.set(category, (group.categories.get(category) || 0) + part.bytes);
    if (part.bytes > group.best || !group.entry) {
        group.best = part.bytes;
        group.entry = entry;
        group.part = part;
    }
}

/** Rows {key, name, bytes, blocks, categories: Map, entry, part}, largest first; `entry` is the one that has most. */
export function groupBy(entries, by) {
    const groups = new Map();
    for (const entry of entries)
        for (const part of SPLIT[by](entry)) {
            const group = made(groups, part.key, (key) =>
                ({ key, name: part.name, bytes: 0, blocks: 0, categories: new Map(), best: 0, entry: null }));
            addTo(group, part, entry);
        }
    return [...groups.values()].sort((a, b) => b.bytes - a.bytes || (a.key < b.key ? -1 : 1));
}

/** One block as an entry. */
export function blockEntry(model, allocation) {
    const index = model.klass[allocation];
    return { index, klass: model.classes[index], bytes: model.bytes(allocation), blocks: 1, allocation };
}

/** Every block for itself, largest first. */
export function blockRows(model, change, keep = isUsed) {
    const rows = [], alive = model.alive(change);
    for (let i = 0; i < alive.length; i++) {
        const entry = blockEntry(model, alive[i]), { klass, bytes } = entry;
        if (!keep(klass))
            continue;
        rows.push({
            key: String(alive[i]),
            name: labelOf(model, klass) || klass.kind,
            bytes,
            blocks: 1,
            categories: new Map([[klass.category, bytes]]),
            entry
        });
    }
    return rows.sort((a, b) => b.bytes - a.bytes || Number(a.key) - Number(b.key));
}

export function mostly(categories) {
    let best = "", most = -1;
    for (const [category, bytes] of categories)
        if (bytes > most)
            [best, most] = [category, bytes];
    return best;
}

/** Rows of A with what B has: {…row, a, b, change}; rows of B alone are there with a = 0. Every row of either
 * is in it, those that differ most first. */
export function compare(rowsA, rowsB) {
    const rows = new Map(rowsA.map((row) => [row.key, {...row, a: row.bytes, b: 0, change: -row.bytes, blocksB: 0 }]));
    for (const row of rowsB) {
        const found = rows.get(row.key);
        if (found)
            Object.assign(found, { b: row.bytes, change: row.bytes - found.a, blocksB: row.blocks });
        else
            rows.set(
                row.key, {...row, a: 0, b: row.bytes, change: row.bytes, bytes: 0, blocks: 0, blocksB: row.blocks });
    }
    return [...rows.values()].sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
}

/* ---- The tree ---- */

function child(node, name, level, entry, part = null) {
    return made(node.children, name, () => newNode(name, level, entry, part));
}

function newNode(name, level, entry, part) {
    const category = entry ? entry.klass.category : "";
    return { key: name, name, level, category, parent: null, bytes: 0, blocks: 0, b: 0, blocksB: 0, children: new Map(), entry, part, entries: null };
}

function add(node, part, side, entry = null) {
    if (side) {
        node.b += part.bytes;
        node.blocksB += part.blocks;
    } else {
        node.bytes += part.bytes;
        node.blocks += part.blocks;
    }
    if (entry)
        (node.entries ??= [[], []])[side].push(entry);
}

/* Children as they are shown: alike ones as one, and of too many the small ones. */
function tidy(node, fold) {
    node.children = new Map(gather(fold([...node.children.values()])).map((one) => [one.key, one]));
}

/** Tells each node what contains it, and its size where two instants are compared: the larger of both in each leaf, so that sizes
 * sum up. */
export function link(node) {
    node.size = node.children?.size ? 0 : Math.max(node.bytes, node.b);
    for (const one of node.children?.values() ?? []) {
        one.parent = node;
        link(one);
        node.size += one.size;
    }
}

/** category › modules, level by level › owner › line. Nodes: {key, name, level, category, parent, bytes, blocks, b, blocksB, size,
 * children: Map by key, entry, entries}, and what fold.js adds; children sum to their parents at both instants.
 * `entriesB` null = one instant only. A block of several tensors counts in the `blocks` of each owner, and once above. */
export function treeOf(entriesA, entriesB) {
    const root = newNode("", "", null, null);
    [entriesA, entriesB || []].forEach((entries, side) => {
        for (const entry of entries) {
            const { klass } = entry;
            add(root, entry, side);
            const category = child(root, klass.category, "category", entry);
            add(category, entry, side);
            const module = child(category, klass.module || "", "module", entry);
            add(module, entry, side, entry);
            for (const part of ownersOf(entry)) {
                const owner = child(module, part.name, "owner", entry, part), own = { ...entry, bytes: part.bytes, only: part };
                add(owner, part, side);
                add(child(owner, placeName(klass), "line", entry), part, side, own);
            }
        }
    });
    for (const category of root.children.values()) {
        for (const module of category.children.values()) {
            for (const owner of module.children.values())
                tidy(owner, (lines) => lines);
            tidy(module, foldNames);
        }
        tidy(category, foldModules);
    }
    link(root);
    return root;
}

/** What lies below a node at A (0) or B (1): entries whose bytes are the node's alone. */
export function within(node, side) {
    return node.entries ? node.entries[side] : [...node.children.values()].flatMap((one) => within(one, side));
}
