// Sums of one device at any change: walked forward from checkpoints, one per bin of changes.
//
// A vector is what a device holds: bytes by category, then what the driver gave, then blocks of the framework.

const MOST_BINS = 65536;

// What each class adds while alive, on one device. Host memory counts on every device.
export function contributions(classes, categories, deviceIndex, strings) {
    const count = classes.rows;
    const names = categories.map((category) => strings.indexOf(category.name));
    const cached = categories.findIndex((category) => category.name === "cached");
    const block = strings.indexOf("block");
    const table = {
        category: new Uint8Array(count), counted: new Int8Array(count), cached: new Int8Array(count), driver: new Int8Array(count),
        block: new Int8Array(count), any: new Uint8Array(count), cachedCategory: cached < 0 ? 0 : cached,
        driverAt: categories.length, blockAt: categories.length + 1, width: categories.length + 2,
    };
    for (let k = 0; k < count; k++) {
        const here = classes.device[k] === deviceIndex;
        if (!here && classes.device[k] !== -1)
            continue;
        table.category[k] = names.indexOf(classes.category[k]);
        table.counted[k] = classes.counted[k];
        table.cached[k] = here ? classes.cached[k] : 0;
        table.driver[k] = here ? classes.driver[k] : 0;
        table.block[k] = here && classes.kind[k] === block ? 1 : 0;
        table.any[k] = table.counted[k] || table.cached[k] || table.driver[k] ? 1 : 0;
    }
    return table;
}

// The state just after a change, which moves forward cheaply.
export class Walker {
    constructor(columns, table, sums) {
        this.columns = columns;
        this.table = table;
        this.sums = sums; // null while these are made
        this.vector = new Float64Array(table.width);
        this.born = 0; // allocations begun, in their order
        this.dead = 0; // allocations ended, in the order of their ends
        this.change = -1;
    }

    add(allocation, sign) {
        const { columns, table, vector } = this;
        const k = columns.klass[allocation];
        if (!table.any[k])
            return;
        const bytes = sign * columns.bytes[allocation];
        if (table.counted[k])
            vector[table.category[k]] += bytes;
        if (table.cached[k])
            vector[table.cachedCategory] += table.cached[k] * bytes;
        if (table.driver[k])
            vector[table.driverAt] += bytes;
        if (table.block[k])
            vector[table.blockAt] += bytes;
    }

    // To the state just after `change`.
    forward(change) {
        const { begin, end, endOrder } = this.columns;
        while (this.dead < endOrder.length && end[endOrder[this.dead]] <= change)
            this.add(endOrder[this.dead++], -1);
        while (this.born < begin.length && begin[this.born] <= change)
            this.add(this.born++, 1);
        this.change = change;
    }

    to(change) {
        const bin = Math.floor((change + 1) / this.sums.bin);
        // Before a checkpoint that lies between: from there. Backward: from the nearest before.
        if (change < this.change || bin * this.sums.bin - 1 > this.change) {
            const { sums } = this;
            const at = Math.max(0, Math.min(bin, sums.bins - 1));
            this.vector.set(sums.before.subarray(at * this.table.width, (at + 1) * this.table.width));
            this.born = sums.born[at];
            this.dead = sums.dead[at];
            this.change = at * sums.bin - 1;
        }
        this.forward(change);
        return this.vector;
    }
}

export function binFor(changes) {
    let bin = 16;
    while (changes / bin > MOST_BINS)
        bin *= 2;
    return bin;
}

// What is largest at the peak: blocks where there are any, else what the driver gave and is not cached.
export function measure(vector, table, hasBlocks) {
    return hasBlocks ? vector[table.blockAt] : vector[table.driverAt] - vector[table.cachedCategory];
}

// For each bin of changes: the vector before it, the largest state in it, and bytes allocated until then by category.
export function* makeSums(columns, table, hasBlocks) {
    const changes = columns.event.length;
    const bin = binFor(changes);
    const bins = Math.max(1, Math.ceil(changes / bin));
    const width = table.width;
    const sums = {
        bin, bins, before: new Float64Array(bins * width), peak: new Float64Array(bins * width), peakChange: new Uint32Array(bins),
        peakMeasure: new Float64Array(bins), allocated: new Float64Array((bins + 1) * width), born: new Uint32Array(bins), dead: new Uint32Array(bins),
    };
    const look = new Walker(columns, table, null);
    const walker = new Walker(columns, table, null);
    const { gaps } = columns;
    let allocated = 0;
    let gap = 0;
    for (let b = 0; b < bins; b++) {
        const last = Math.min(changes, (b + 1) * bin) - 1;
        let best = -Infinity; // stays so where no change of the bin is a moment that is known
        sums.peakChange[b] = b * bin;
        sums.before.set(walker.vector, b * width);
        sums.born[b] = walker.born;
        sums.dead[b] = walker.dead;
        for (let change = b * bin; change <= last; change++) {
            while (gap < gaps.first.length && gaps.end[gap] <= change)
                gap++;
            if (gap < gaps.first.length && gaps.first[gap] <= change)
                continue;
            look.forward(change);
            const value = measure(look.vector, table, hasBlocks);
            if (value > best) {
                best = value;
                sums.peakChange[b] = change;
            }
        }
        sums.peakMeasure[b] = best;
        walker.forward(sums.peakChange[b]);
        sums.peak.set(walker.vector, b * width);
        walker.forward(last);
        for (; allocated < walker.born; allocated++) {
            const k = columns.klass[allocated];
            if (table.counted[k])
                sums.allocated[(b + 1) * width + table.category[k]] += columns.bytes[allocated];
        }
        for (let c = 0; c < width; c++)
            sums.allocated[(b + 1) * width + c] += sums.allocated[b * width + c];
        if ((b & 255) === 255)
            yield b / bins;
    }
    return sums;
}

// The number of the bin with the largest measure among bins from..to-1; the first of equals.
export class Largest {
    constructor(values) {
        this.values = values;
        this.size = 1;
        while (this.size < values.length)
            this.size *= 2;
        this.tree = new Int32Array(2 * this.size).fill(-1);
        for (let i = 0; i < values.length; i++)
            this.tree[this.size + i] = i;
        for (let i = this.size - 1; i > 0; i--)
            this.tree[i] = this.better(this.tree[2 * i], this.tree[2 * i + 1]);
    }

    better(a, b) {
        if (a < 0 || b < 0)
            return Math.max(a, b);
        if (this.values[a] === this.values[b])
            return Math.min(a, b);
        return this.values[a] > this.values[b] ? a : b;
    }

    among(from, to) {
        let best = -1;
        for (let low = from + this.size, high = to + this.size; low < high; low >>= 1, high >>= 1) {
            if (low & 1)
                best = this.better(best, this.tree[low++]);
            if (high & 1)
                best = this.better(best, this.tree[--high]);
        }
        return best;
    }
}

// First of `count` numbers that passes; all after it do.
export function firstThat(count, passes) {
    let low = 0;
    for (let high = count; low < high;) {
        const middle = (low + high) >>> 1;
        if (passes(middle))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// First index whose value is > x in an ascending array.
export function above(array, x) {
    let low = 0;
    for (let high = array.length; low < high;) {
        const middle = (low + high) >>> 1;
        if (array[middle] > x)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

