// Addresses that are written only where they are not where an allocator puts a block: in the smallest hole that holds it.
// All numbers are in units of 256 bytes. docs/page.md says it in words; the writer is placement.c.

const MOST_HOLES = 4096;
const NEVER = 0xffffffff;
const SMALL_BLOCK = 2 ** 20, SMALL_SEGMENT = 2 ** 21;

// Sorted by the first of two keys, then by the second; `pools` keep holes by size, the list of all by start.
class Pairs {
    constructor() {
        this.first = new Float64Array(MOST_HOLES);
        this.second = new Float64Array(MOST_HOLES);
        this.count = 0;
    }

    // Index of the first pair that is not before this one.
    from(first, second) {
        const firsts = this.first;
        let low = 0, high = this.count;
        while (low < high) {
            const middle = (low + high) >>> 1;
            if (firsts[middle] < first || (firsts[middle] === first && this.second[middle] < second))
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }

    move(to, from) {
        this.first.copyWithin(to, from, this.count);
        this.second.copyWithin(to, from, this.count);
        this.count += to - from;
    }

    insert(at, first, second) {
        this.move(at + 1, at);
        this.first[at] = first;
        this.second[at] = second;
    }
}

class Holes {
    constructor() {
        this.holes = new Pairs(); // start and end
        this.segments = new Pairs(); // of each hole: its segment and pool
        this.pools = new Map(); // size and start
    }

    fits(pool) {
        let fits = this.pools.get(pool);
        if (!fits)
            this.pools.set(pool, fits = new Pairs());
        return fits;
    }

    insert(start, end, segment, pool) {
        if (this.holes.count >= MOST_HOLES)
            return;
        const at = this.holes.from(start, 0), fits = this.fits(pool);
        this.holes.insert(at, start, end);
        this.segments.insert(at, segment, pool);
        fits.insert(fits.from(end - start, start), end - start, start);
    }

    extract(at) {
        const { first, second } = this.holes, fits = this.fits(this.segments.second[at]);
        const place = fits.from(second[at] - first[at], first[at]);
        fits.move(place, place + 1);
        this.holes.move(at, at + 1);
        this.segments.move(at, at + 1);
    }

    // A free piece, joined with those of its segment that touch it.
    give(segment, pool, start, size) {
        const { holes, segments } = this;
        let end = start + size;
        let at = holes.from(start, 0);
        if (at && holes.second[at - 1] === start && segments.first[at - 1] === segment) {
            start = holes.first[--at];
            this.extract(at);
        }
        if (at < holes.count && holes.first[at] === end && segments.first[at] === segment) {
            end = holes.second[at];
            this.extract(at);
        }
        this.insert(start, end, segment, pool);
    }

    // Takes a piece of a hole. Its segment; -1 where no hole has it.
    take(start, size) {
        const { holes, segments } = this;
        let at = holes.from(start, 0);
        if (at === holes.count || holes.first[at] !== start)
            at--;
        if (at < 0 || holes.second[at] < start + size)
            return -1;
        const low = holes.first[at], high = holes.second[at], segment = segments.first[at], pool = segments.second[at];
        this.extract(at);
        if (low < start)
            this.insert(low, start, segment, pool);
        if (start + size < high)
            this.insert(start + size, high, segment, pool);
        return segment;
    }

    drop(segment, start, size) {
        const { holes, segments } = this;
        for (let at = holes.from(start, 0); at < holes.count && holes.first[at] < start + size;) {
            if (segments.first[at] === segment)
                this.extract(at);
            else
                at++;
        }
    }

    // Where the smallest hole begins that holds `size`, of equal ones the lowest; -1 without any.
    guess(pool, size) {
        const fits = this.fits(pool), at = fits.from(size, -1);
        return at < fits.count ? fits.second[at] : -1;
    }
}

// The column of addresses from its numbers (0 = as expected, else the value + 1). `columns` has begin, end, endOrder, klass,
// size, sizes; `places` is by class: 0 anywhere, odd = blocks, even = their segments, (n - 1) >> 1 = the device.
export function* placed(written, columns, places) {
    const { begin, end, endOrder, klass, size, sizes } = columns;
    const count = begin.length;
    const address = new Float64Array(count);
    const homes = new Int32Array(count).fill(-1);
    const slots = new Float64Array(65536);
    const holes = new Holes();
    const units = (i) => Math.ceil(sizes[size[i]] / 256);
    const pool = (i) => {
        const place = places[klass[i]], bytes = sizes[size[i]];
        return (place - 1 & ~1) + (place % 2 ? bytes <= SMALL_BLOCK : bytes === SMALL_SEGMENT);
    };
    let ended = 0;
    for (let i = 0; i < count; i++) {
        for (; ended < endOrder.length && end[endOrder[ended]] <= begin[i]; ended++) {
            const gone = endOrder[ended], place = places[klass[gone]], home = homes[gone];
            if (place && place % 2 === 0)
                holes.drop(gone, address[gone], units(gone));
            if (home >= 0 && (end[home] === NEVER || end[home] > end[gone]))
                holes.give(home, pool(home), address[gone], units(gone));
        }
        let hash = 0;
        for (let k = 0; k < 4; k++)
            hash = Math.imul(hash, 31) + (i >= k ? klass[i - k] : 0) | 0;
        const slot = Math.imul(hash, 2654435761) >>> 16;
        const place = places[klass[i]];
        const guess = place % 2 && !written[i] ? holes.guess(pool(i), units(i)) : -1;
        const value = written[i] ? written[i] - 1 : guess >= 0 ? guess : slots[slot];
        slots[slot] = value;
        address[i] = value;
        if (place % 2)
            homes[i] = holes.take(value, units(i));
        else if (place)
            holes.give(i, pool(i), value, units(i));
        if ((i & 0x3ffff) === 0x3ffff)
            yield i / count;
    }
    return address;
}
