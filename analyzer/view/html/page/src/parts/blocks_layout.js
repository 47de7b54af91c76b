// Which blocks are seen at the samples of a picture (one change for each column), and how they stack.
//
// A block is seen in columns [first, until): those whose sampled change it is alive at. What lives between two
// samples is counted, not drawn. Up to MOST_BLOCKS are kept singly; bytes are summed by class in any case.
import { above, firstThat } from "../walk.js";
import { made } from "../made.js";

export const MOST_BLOCKS = 20000; // that are drawn one by one
const MOST_CELLS = 6e6;           // columns of all single blocks together
const MOST_CLASSES = 2000;        // with sums of their own, others count by category
const SLICE = 200000;             // allocations between two pauses

/** First column whose sample is at or after `change`. */
export const columnAt = (samples, change) => above(samples, change - 1);

/** Gathers what `samples` (ascending changes) see of the classes that `keep[class]` marks. `pause()` is awaited between
 * slices; where it returns true, gathering is given up and null is returned.
 * -> { seen, unseen, single: bool, spans: {allocation, first, until: arrays, count}, classes: Map(class -> {area, blocks, delta}),
 *      others: Map(category -> …the same), columns } */
export async function gather(model, samples, keep, pause) {
    const columns = samples.length, spans = {
        allocation: new Uint32Array(MOST_BLOCKS),
        first: new Uint16Array(MOST_BLOCKS),
        until: new Uint16Array(MOST_BLOCKS),
        count: 0
    };
    const found = { seen: 0, unseen: 0, single: true, spans, classes: new Map(), others: new Map(), columns };
    let cells = 0, until = 0, done = 0;
    if (!columns)
        return found;

    const sums = (map, key) => made(map, key, () => ({ area: 0, blocks: 0, largest: 0, delta: new Float64Array(columns + 1) }));
    const see = (i, first) => {
        const behind = columnAt(samples, model.end[i]);
        if (behind <= first)
            return void found.unseen++;
        const index = model.klass[i], bytes = model.bytes(i);
        const own = found.classes.has(index) || found.classes.size < MOST_CLASSES;
        const sum = own ? sums(found.classes, index) : sums(found.others, model.classes[index].category);
        sum.area += bytes * (behind - first);
        sum.blocks++;
        sum.largest = Math.max(sum.largest, bytes);
        sum.delta[first] += bytes;
        sum.delta[behind] -= bytes;
        found.seen++;
        cells += behind - first;
        if (spans.count < MOST_BLOCKS && found.seen <= MOST_BLOCKS) {
            spans.allocation[spans.count] = i;
            spans.first[spans.count] = first;
            spans.until[spans.count++] = behind;
        }
        return undefined;
    };

    for (const i of model.alive(samples[0]))
        if (keep[model.klass[i]])
            see(i, 0);
    const [from, to] = model.bornIn(samples[0] + 1, samples[columns - 1]);
    for (let i = from; i < to; i++) {
        if (++done % SLICE === 0 && await pause())
            return null;
        while (until < columns && samples[until] < model.begin[i])
            until++; // begins ascend
        if (keep[model.klass[i]])
            see(i, until);
    }
    found.single = found.seen <= MOST_BLOCKS && cells <= MOST_CELLS;
    return found;
}

/** Bands of equal height rule, stacked from the bottom in the order in which they began:
 * [{allocation | klass | category, blocks, first, until, bottom: Float64Array(columns…), bytes | heights}…].
 * Single blocks lower than `least` bytes are summed in a band for each category, above the others. */
export function stack(model, found, least) {
    return found.single ? stackBlocks(model, found, least) : stackClasses(model, found);
}

function stackBlocks(model, found, least) {
    const { spans, columns } = found, level = new Float64Array(columns), bands = [], small = new Map();
    for (let n = 0; n < spans.count; n++) {
        const allocation = spans.allocation[n], bytes = model.bytes(allocation), first = spans.first[n],
              until = spans.until[n];
        const klass = model.classes[model.klass[allocation]];
        if (bytes < least) {
            const rest = made(small, klass.category, (category) => ({ category, blocks: 0, heights: new Float64Array(columns) }));
            rest.blocks++;
            for (let c = first; c < until; c++)
                rest.heights[c] += bytes;
            continue;
        }
        const bottom = level.slice(first, until);
        for (let c = first; c < until; c++)
            level[c] += bytes;
        bands.push({ allocation, category: klass.category, blocks: 1, first, until, bottom, bytes, heights: null });
    }
    const order = orderOf(model);
    for (const rest of [...small.values()].sort((a, b) => order(a.category) - order(b.category)))
        bands.push(onTop(level, rest));
    return { bands, level };
}

function onTop(level, band) {
    const bottom = level.slice();
    for (let c = 0; c < level.length; c++)
        level[c] += band.heights[c];
    return { allocation: -1, first: 0, until: level.length, bytes: 0, ...band, bottom };
}

function running(delta, columns) {
    const heights = new Float64Array(columns);
    for (let c = 0, sum = 0; c < columns; c++)
        heights[c] = sum += delta[c];
    return heights;
}

/* Categories from the bottom as in the timeline. */
function orderOf(model) {
    const names = model.stacked.map((category) => model.categories[category].name);
    return (category) => names.indexOf(category);
}

/* Classes by their category, the largest first; the smallest of a category are one band. */
function stackClasses(model, found) {
    const { columns } = found, level = new Float64Array(columns), bands = [], rest = new Map();
    const classes = [...found.classes].sort((a, b) => b[1].area - a[1].area);
    const addRest = (category, sum) => {
        const heights = running(sum.delta, columns),
              band = made(rest, category, () => ({ category, blocks: 0, heights: new Float64Array(columns) }));
        band.blocks += sum.blocks;
        heights.forEach((value, c) => { band.heights[c] += value; });
    };
    classes.slice(300).forEach(([index, sum]) => addRest(model.classes[index].category, sum));
    for (const [category, sum] of found.others)
        addRest(category, sum);
    const shown = classes.slice(0, 300).map(([klass, sum]) => ({
        klass,
        category: model.classes[klass].category,
        blocks: sum.blocks,
        largest: sum.largest,
        area: sum.area,
        heights: running(sum.delta, columns)
    }));
    const all = [...shown, ...rest.values()], order = orderOf(model);
    all.sort((a, b) => order(a.category) - order(b.category) || (b.area ?? 0) - (a.area ?? 0));
    for (const band of all)
        bands.push(onTop(level, band));
    return { bands, level };
}

/** The band at a column and a height in bytes, or null. */
export function bandAt(bands, column, bytes) {
    for (const band of bands) {
        if (column < band.first || column >= band.until)
            continue;
        const bottom = band.bottom[column - band.first];
        if (bytes >= bottom && bytes < bottom + (band.heights ? band.heights[column] : band.bytes))
            return band;
    }
    return null;
}

/** Address ranges that hold anything, without the gaps between: [{address, bytes, offset}…], and their sum. */
export function ranges(pieces) {
    const sorted = pieces.filter((piece) => piece.address).sort((a, b) => a.address - b.address), found = [];
    let offset = 0;
    for (const { address, bytes } of sorted) {
        const last = found[found.length - 1];
        if (last && address <= last.address + last.bytes)
            last.bytes = Math.max(last.bytes, address + bytes - last.address);
        else
            found.push({ address, bytes, offset: 0 });
    }
    for (const range of found) {
        range.offset = offset;
        offset += range.bytes;
    }
    return { ranges: found, bytes: offset };
}

export function offsetOf(found, address) {
    const range = found[firstThat(found.length, (i) => found[i].address > address) - 1];
    return range && address < range.address + range.bytes ? range.offset + address - range.address : -1;
}
