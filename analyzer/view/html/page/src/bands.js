// The timeline by modules, lines or owners, and what a search finds in it. The walk is that of categories (walk.js): a class
// adds its bytes to a band, or parts of them to several. The work is done in slices, so that the page never stops.

import { visible } from "./dom.js";
import { run } from "./data.js";
import { labelOf, ownersOf } from "./parts/groups.js";
import { categoryLabel, isUsed, UNNAMED } from "./parts/view.js";
import { above, firstThat, Walker } from "./walk.js";

const LETTERS = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]; // of bands that have a colour of their own
const REST = "band_rest";
const FOUND = "band_found";
const NONE = 0xffffffff;
const SLICE = 0x2000; // changes at once
const SLICE_MS = 8;
const WAIT_MS = 300; // until the window rests

const NAME = {
    category: (klass) => klass.category,
    module: (klass) => klass.module || "",
    line: (klass) => klass.place?.name || "",
    owner: (klass, model) => labelOf(model, klass),
};

const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

/** Where the bytes of each class go. `bandOf(name)`: the number of a group's band; `found`: the band of what has all `words`. */
export function tableOf(model, by, bandOf, words = [], found = NONE) {
    const table = { band: new Uint32Array(model.classes.length).fill(NONE), parts: new Array(model.classes.length).fill(null), width: 0 };
    model.classes.forEach((klass, k) => {
        if (!model.table.counted[k] || !isUsed(klass))
            return;
        const { module, module_class, operator, category, place } = klass;
        const text = words.length ? [labelOf(model, klass), module, module_class, operator, categoryLabel(model, category), place?.name].join("\n") : "";
        const has = (...more) => text && words.every((word) => [text, ...more].join("\n").toLowerCase().includes(word));
        table.band[k] = has() ? found : bandOf(NAME[by](klass, model));
        if (has() || !klass.tensors.length)
            return;
        const owners = ownersOf({ klass, bytes: Infinity, blocks: 1 });
        const parts = owners.map(({ name, role, dtype, shape, bytes }) =>
            ({ band: has(name, role, dtype, shape) ? found : by === "owner" ? bandOf(name) : table.band[k], bytes }));
        table.parts[k] = { parts: parts.slice(0, -1), rest: parts.at(-1).band, sum: parts.slice(0, -1).reduce((sum, { bytes }) => sum + bytes, 0) };
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
        if (table.band[k] === NONE)
            return;
        if (!split || split.sum > bytes) { // shares that are more than the block are not believed
            this.put(table.band[k], sign * bytes, allocation);
            return;
        }
        for (const part of split.parts)
            this.put(part.band, sign * part.bytes, allocation);
        this.put(split.rest, sign * (bytes - split.sum), allocation);
    }

    put(band, bytes, allocation) {
        const now = this.vector[band] += bytes;
        if (now > this.most[band]) {
            this.most[band] = now;
            this.mostAt[band] = this.columns.begin[allocation];
        }
    }
}

// A walk over changes from..to: the most bytes that each band has there. Into `before` go the sums before each bin.
function* walk(model, table, from, to, before) {
    const { columns, sums } = model;
    const walker = new BandWalker(columns, table, null);
    for (const i of from > 0 ? model.alive(from - 1) : [])
        walker.add(i, 1);
    walker.born = from > 0 ? above(columns.begin, from - 1) : 0;
    walker.dead = firstThat(columns.endOrder.length, (i) => columns.end[columns.endOrder[i]] >= from);
    walker.most.set(walker.vector); // what several had together while they were added is nothing
    walker.mostAt.fill(from - 1);
    for (let change = from; change <= to; change++) {
        if (before && change % sums.bin === 0)
            before.set(walker.vector, change / sums.bin * table.width);
        walker.forward(change);
        if (change % SLICE === 0)
            yield change / to;
    }
    return walker;
}

/** A model with other bands: { name, label, index, most, at, ever }. */
function sourceOf(model, by, bands, table, before) {
    const { bin, bins, born, dead } = model.sums;
    const walker = new BandWalker(model.columns, table, { bin, bins, born, dead, before });
    const pictures = new WeakMap();
    const count = bands.length;
    const bandsAt = (change) => walker.to(Math.min(change, model.changes - 1));
    return Object.assign(Object.create(model), {
        by, bands, bandsAt, found: bands[0].name === FOUND ? bands[0] : null, driverAt: count, cachedAt: count + 1,
        // The moments of the picture by categories: what is drawn is the same, in other parts.
        picture(axis, lo, hi, columns) {
            const known = model.picture(axis, lo, hi, columns);
            if (!pictures.has(known)) {
                const width = count + 2;
                const vectors = new Float64Array(known.count * width);
                for (let column = 0; column < known.count; column++) {
                    if (!known.gap[column])
                        vectors.set(bandsAt(known.change[column]), column * width);
                    vectors[column * width + count] = known.vectors[column * known.width + model.driverAt];
                    vectors[column * width + count + 1] = known.vectors[column * known.width + model.cachedAt];
                }
                pictures.set(known, { ...known, width, vectors });
            }
            return pictures.get(known);
        },
    });
}

export class Bands {
    /** `show(source)` is called with what the timeline is to show: of categories without a search it is the model itself. */
    constructor(store, show) {
        this.store = store;
        this.show = show;
        this.turn = 0;
    }

    open(model) {
        this.model = model;
        this.known = new Map();
        this.shown = null;
        this.make();
    }

    /** After a change of the state: of the window when it rests. */
    update(keys) {
        if (!this.model || !["by", "filter", "zoom", "axis"].some((key) => keys.has(key)))
            return;
        clearTimeout(this.later);
        this.later = setTimeout(() => this.make(), keys.has("by") || keys.has("filter") ? 0 : WAIT_MS);
    }

    async make() {
        const { model, store } = this;
        const { by, filter } = store.get();
        const turn = ++this.turn;
        if (by === "category" && !wordsOf(filter).length) {
            this.say("", model);
            return;
        }
        let rested = performance.now();
        const sliced = (steps) => run(steps, async () => {
            if (performance.now() - rested < SLICE_MS)
                return;
            await new Promise((resolve) => { setTimeout(() => turn === this.turn && resolve()); }); // never, if another was asked for
            rested = performance.now();
        });
        const groups = by === "category" ? categoriesOf(model) : await this.largest(by, sliced);
        const key = JSON.stringify([by, filter, groups]);
        if (key !== this.shown)
            this.say(key, await bandsOf(model, by, groups, filter, sliced));
    }

    say(key, source) {
        if (key !== this.shown)
            this.show(source);
        this.shown = key;
    }

    // The groups that have most in the window: [[name, rank]…] by their most in the whole run. Those of equal names are one.
    async largest(by, sliced) {
        const { model, known, store } = this;
        if (!known.has(by)) {
            const names = new Map();
            const table = tableOf(model, by, (name) => names.set(name, names.get(name) ?? names.size).get(name));
            table.width = names.size;
            const { most } = await sliced(walk(model, table, 0, model.changes - 1));
            const rank = Uint32Array.from(names.values()).sort((a, b) => most[b] - most[a] || a - b);
            known.set(by, { names: [...names.keys()], table, rank, most });
        }
        const { names, table, rank, most } = known.get(by);
        const axis = model.axis(store.get().axis);
        const [from, to] = store.get().zoom.map((x, i) => axis.changeAt(x) + 1 - i);
        const there = from > 0 || to < model.changes - 1 ? (await sliced(walk(model, table, Math.max(0, from), to))).most : most;
        const chosen = [...rank].filter((group) => there[group] > 0).sort((a, b) => there[b] - there[a]).slice(0, LETTERS.length);
        const place = new Map([...rank].map((group, i) => [group, i]));
        return coloured(chosen.sort((a, b) => place.get(a) - place.get(b)).map((group) => [names[group], place.get(group)]));
    }
}

// Each has the colour of its rank if no larger one has it, else the next that is free: a zoom changes few colours.
function coloured(ranked) {
    const free = new Set(LETTERS.keys());
    return ranked.map(([text, rank]) => {
        const wanted = rank % LETTERS.length;
        const at = free.has(wanted) ? wanted : free.values().next().value;
        free.delete(at);
        return { name: `band_${LETTERS[at]}`, group: text };
    });
}

const categoriesOf = (model) => model.bands.map(({ name }) => ({ name, group: name }));

// What is found is on the ground, where its form is seen best; what has no colour is on top.
async function bandsOf(model, by, groups, filter, sliced) {
    const words = wordsOf(filter);
    const label = (group) => visible(by === "category" ? categoryLabel(model, group) : group || UNNAMED[by]);
    const bands = [
        ...(words.length ? [{ name: FOUND, label: `“${visible(filter.trim())}”` }] : []),
        ...groups.map(({ name, group }) => ({ name, label: label(group), group })), { name: REST, label: "the rest" },
    ];
    const numbers = new Map(bands.map(({ group }, i) => [group, i]));
    const table = tableOf(model, by, (name) => numbers.get(name) ?? bands.length - 1, words, 0);
    table.width = bands.length;
    const before = new Float64Array(model.sums.bins * table.width);
    const { most, mostAt } = await sliced(walk(model, table, 0, model.changes - 1, before));
    bands.forEach((band, i) => Object.assign(band, { index: i, most: most[i], at: mostAt[i], ever: most[i] > 0 }));
    return sourceOf(model, by, bands, table, before);
}
