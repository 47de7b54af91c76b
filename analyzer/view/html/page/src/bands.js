// The timeline by modules, lines or owners, and what a search finds in it: the walk is that of categories (walk.js), but a class adds its
// bytes to a band, or parts of them to several.

import { visible } from "./dom.js";
import { run } from "./data.js";
import { made } from "./made.js";
import { labelOf, ownersOf } from "./parts/groups.js";
import { pathOf } from "./parts/stacks.js";
import { categoryLabel, frameName, isUsed, UNNAMED, wordsOf } from "./parts/view.js";
import { above, firstThat, Walker } from "./walk.js";

const LETTERS = "abcdefghij"; // of bands that have a colour of their own: colours.js
const FOUND = "band_found";
const NONE = 0xffffffff;
const SLICE_MS = 8;
const REST_MS = 300; // from when on the window rests

const NAME = {
    category: (klass) => klass.category,
    module: (klass) => klass.module || "",
    line: (klass) => klass.place?.name || "",
    owner: (klass, model) => labelOf(model, klass),
};

// All names of a class, with those of the frames that the flame graph shows.
const textOf = (model, klass) => klass.text ??= [labelOf(model, klass), klass.module, klass.module_class, klass.operator,
    categoryLabel(model, klass.category), klass.place?.name, ...pathOf(klass, false).map(frameName)].join("\n").toLowerCase();

// Where the bytes of each class go. `bandOf(name)`: the number of a group's band; what has all words goes to band 0.
function tableOf(model, by, bandOf, words = []) {
    const table = { band: new Uint32Array(model.classes.length).fill(NONE), parts: new Array(model.classes.length).fill(null), width: 0 };
    model.classes.forEach((klass, k) => {
        if (!model.table.counted[k] || !isUsed(klass))
            return;
        const text = words.length && textOf(model, klass);
        const has = (...more) => text && words.every((word) => `${text}\n${more.join("\n").toLowerCase()}`.includes(word));
        const band = table.band[k] = has() ? 0 : bandOf(NAME[by](klass, model));
        if (has() || !klass.tensors.length)
            return;
        const parts = ownersOf({ klass, bytes: Infinity, blocks: 1 }).map(({ name, role, dtype, shape, bytes }) =>
            ({ band: has(name, role, dtype, shape) ? 0 : by === "owner" ? bandOf(name) : band, bytes }));
        const rest = parts.pop().band; // what of a block no tensor has
        table.parts[k] = { parts, rest, sum: parts.reduce((sum, { bytes }) => sum + bytes, 0) };
    });
    return table;
}

// The bytes of each band just after a change, and the most that each had.
class BandWalker extends Walker {
    constructor(columns, table, sums) {
        super(columns, table, sums);
        this.most = new Float64Array(table.width);
        this.mostAt = new Int32Array(table.width).fill(-1);
    }

    add(allocation, sign) {
        const { columns, table } = this;
        const k = columns.klass[allocation];
        const bytes = columns.bytes[allocation];
        const split = table.parts[k];
        if (split === null || split.sum > bytes) { // shares that are more than the block are not believed
            this.put(table.band[k], sign * bytes, allocation);
            return;
        }
        for (const part of split.parts)
            this.put(part.band, sign * part.bytes, allocation);
        this.put(split.rest, sign * (bytes - split.sum), allocation);
    }

    put(band, bytes, allocation) {
        if (band === NONE)
            return;
        const now = this.vector[band] += bytes;
        if (now > this.most[band]) {
            this.most[band] = now;
            this.mostAt[band] = this.columns.begin[allocation];
        }
    }
}

// Walks changes from..to for the most bytes of each band. `before` gets the sums before each bin.
function* walk(model, table, from, to, before) {
    const { columns, sums } = model;
    const walker = new BandWalker(columns, table, null);
    for (const i of model.alive(from - 1))
        walker.add(i, 1);
    walker.born = above(columns.begin, from - 1);
    walker.dead = firstThat(columns.endOrder.length, (i) => columns.end[columns.endOrder[i]] >= from);
    walker.most.set(walker.vector);
    for (let change = from; change <= to; change++) {
        if (before && change % sums.bin === 0)
            before.set(walker.vector, change / sums.bin * table.width);
        walker.forward(change);
        if (change % 0x2000 === 0)
            yield change / to;
    }
    return walker;
}

// The model with other bands in its picture, at the moments of that by categories.
function sourceOf(model, by, bands, table, before) {
    const walker = new BandWalker(model.columns, table, { ...model.sums, before });
    const bandsAt = (change) => walker.to(Math.min(change, model.changes - 1));
    const pictures = new WeakMap();
    const width = bands.length + 2;
    const parted = (known) => {
        const vectors = new Float64Array(known.count * width);
        for (let column = 0; column < known.count; column++) {
            if (!known.gap[column])
                vectors.set(bandsAt(known.change[column]), column * width);
            vectors[column * width + width - 2] = known.vectors[column * known.width + model.driverAt];
            vectors[column * width + width - 1] = known.vectors[column * known.width + model.cachedAt];
        }
        return { ...known, width, vectors, whole: known };
    };
    return Object.assign(Object.create(model), {
        by, bands, bandsAt, found: bands[0].name === FOUND ? bands[0] : null, driverAt: width - 2, cachedAt: width - 1,
        picture(...asked) {
            return made(pictures, model.picture(...asked), parted);
        },
    });
}

export class Bands {
    // `show(source)` gets what the timeline is to show: by categories without a search it is the model itself.
    constructor(store, show) {
        this.store = store;
        this.show = show;
        this.turn = 0;
    }

    open(model) {
        this.model = model;
        this.known = new Map();
        this.show(model);
        this.shown = ""; // by categories, without a search
        this.make();
    }

    update(keys) {
        const now = keys.has("by") || keys.has("filter");
        if (!now && !keys.has("zoom") && !keys.has("axis"))
            return;
        clearTimeout(this.later);
        this.later = setTimeout(() => this.model && this.make(), now ? 0 : REST_MS);
    }

    async make() {
        const { model } = this;
        const { by, filter } = this.store.get();
        const turn = ++this.turn;
        const plain = by === "category" && !wordsOf(filter).length;
        let rested = performance.now();
        const sliced = (steps) => run(steps, async () => {
            if (performance.now() - rested < SLICE_MS)
                return;
            await new Promise((resolve) => { setTimeout(() => turn === this.turn && resolve()); }); // never, if another was asked for
            rested = performance.now();
        });
        const groups = by === "category" ? model.bands.map(({ name }) => ({ name, group: name })) : await this.largest(by, sliced);
        const key = plain ? "" : JSON.stringify([by, wordsOf(filter), groups]);
        if (key === this.shown)
            return;
        const source = plain ? model : await bandsOf(model, by, groups, filter, sliced);
        if (turn !== this.turn || model !== this.model)
            return;
        this.show(source);
        this.shown = key;
    }

    // The groups that have most in the window, in the order of their most in the whole run. Each has the colour of its place there, if no
    // larger one has it, else the next that is free: another window changes few.
    async largest(by, sliced) {
        const { model, known, store } = this;
        if (!known.has(by)) {
            const names = new Map();
            const table = tableOf(model, by, (name) => made(names, name, () => names.size));
            table.width = names.size;
            const { most } = await sliced(walk(model, table, 0, model.changes - 1));
            known.set(by, { table, most, names: [...names.keys()], order: [...names.values()].sort((a, b) => most[b] - most[a] || a - b) });
        }
        const { table, most, names, order } = known.get(by);
        const axis = model.axis(store.get().axis);
        const [lo, to] = store.get().zoom.map((x) => axis.changeAt(x));
        const there = lo < 0 && to === model.changes - 1 ? most : (await sliced(walk(model, table, lo + 1, to))).most;
        const chosen = new Set([...order].sort((a, b) => there[b] - there[a]).slice(0, LETTERS.length));
        const free = new Set(LETTERS);
        return order.flatMap((group, place) => {
            if (!chosen.has(group) || !there[group])
                return [];
            const wanted = LETTERS[place % LETTERS.length];
            const letter = free.has(wanted) ? wanted : free.values().next().value;
            free.delete(letter);
            return [{ name: `band_${letter}`, group: names[group] }];
        });
    }
}

// What is found is on the ground, where its form is seen best; what has no colour is on top.
async function bandsOf(model, by, groups, filter, sliced) {
    const words = wordsOf(filter);
    const bands = groups.map(({ name, group }) => ({ name, group, label: visible(by === "category" ? categoryLabel(model, group) : group || UNNAMED[by]) }));
    if (words.length)
        bands.unshift({ name: FOUND, group: null, label: `“${visible(filter.trim())}”` });
    bands.push({ name: "band_rest", group: null, label: "the rest" });
    const numbers = new Map(bands.map(({ group }, i) => [group, i]));
    const table = tableOf(model, by, (name) => numbers.get(name) ?? bands.length - 1, words);
    table.width = bands.length;
    const before = new Float64Array(model.sums.bins * table.width);
    const { most, mostAt } = await sliced(walk(model, table, 0, model.changes - 1, before));
    return sourceOf(model, by, bands.map((band, index) => ({ ...band, index, most: most[index], at: mostAt[index], ever: most[index] > 0 })), table, before);
}
