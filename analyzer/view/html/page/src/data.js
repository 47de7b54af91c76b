// The page's blobs to typed arrays ("vramtrace.page/1"). Runs in a worker, and in the page itself where none may start.
// Long work is generators that yield now and then, so that the page can stay alive between slices.

import { placed } from "./addresses.js";

export class DataError extends Error {}

const SLICE = 0x3ffff;
const NEVER = 0xffffffff;

export function fromBase64(text) {
    try {
        if (Uint8Array.fromBase64)
            return Uint8Array.fromBase64(text.trim());
        const binary = atob(text.trim());
        const bytes = new Uint8Array(binary.length);
        for (let i = 0; i < binary.length; i++)
            bytes[i] = binary.charCodeAt(i);
        return bytes;
    } catch {
        throw new DataError("The data in this page is damaged: it is not base64. Make the page again with “vramtrace html”.");
    }
}

function damaged(name, what) {
    return new DataError(`The data in this page is damaged: “${name}” ${what}. Copy the file again, or make it again with “vramtrace html”.`);
}

export async function inflate(all, blob, name) {
    if (typeof DecompressionStream === "undefined")
        throw new DataError("This browser cannot read compressed data. Open the page with Firefox 113, Chrome 103, Safari 16.4 or newer.");
    if (!blob || blob.offset + blob.bytes > all.length)
        throw damaged(name, "is cut short");
    const raw = new Uint8Array(blob.raw_bytes);
    let filled = 0;
    try {
        const stream = new Blob([all.subarray(blob.offset, blob.offset + blob.bytes)]).stream()
            .pipeThrough(new DecompressionStream("deflate-raw"));
        for (const reader = stream.getReader();;) {
            const { done, value } = await reader.read();
            if (done)
                break;
            if (filled + value.length > raw.length)
                throw new RangeError("too long");
            raw.set(value, filled);
            filled += value.length;
        }
    } catch {
        throw damaged(name, "cannot be decompressed");
    }
    if (filled !== raw.length)
        throw damaged(name, "is cut short");
    return raw;
}

// ---- Columns ----

// Unsigned LEB128. `take` gets each value with its number.
function* eachNumber(raw, count, name, take) {
    let at = 0;
    for (let i = 0; i < count; i++) {
        let byte = raw[at++];
        let value = byte & 0x7f;
        for (let scale = 128; byte & 0x80; scale *= 128) {
            byte = raw[at++];
            value += (byte & 0x7f) * scale;
        }
        if (byte === undefined)
            throw damaged(name, "ends too early");
        take(i, value);
        if ((i & SLICE) === SLICE)
            yield i / count;
    }
    if (at !== raw.length)
        throw damaged(name, "is too long");
}

export function* numbers(raw, count, name, Kind = Float64Array) {
    const out = new Kind(count);
    yield* eachNumber(raw, count, name, (i, value) => {
        out[i] = value;
    });
    return out;
}

export function* deltas(raw, count, name) {
    const out = new Float64Array(count);
    let last = 0;
    yield* eachNumber(raw, count, name, (i, value) => {
        last += value % 2 ? -(value + 1) / 2 : value / 2;
        out[i] = last;
    });
    return out;
}

// Running sums of value + extra. `extra` is 1 where each number leaves out the one that always is.
export function* sums(raw, count, name, extra) {
    const out = new Uint32Array(count);
    let last = -extra;
    yield* eachNumber(raw, count, name, (i, value) => {
        last += value + extra;
        if (last >= NEVER)
            throw damaged(name, "has a number that is too large");
        out[i] = last;
    });
    return out;
}

// A number is that of the last time that the same classes came one after the other (0), or written (value + 1).
// `klass` null: the column is that of the classes itself.
export function* predicted(raw, count, name, klass, Kind = Uint32Array) {
    const out = new Kind(count);
    const slots = new Float64Array(65536);
    let a = 0, b = 0, c = 0, d = 0; // the classes before, the nearest first
    const follow = (one) => {
        d = c;
        c = b;
        b = a;
        a = one;
    };
    yield* eachNumber(raw, count, name, (i, value) => {
        if (klass)
            follow(klass[i]);
        let hash = Math.imul(a, 31) + b | 0;
        hash = Math.imul(hash, 31) + c | 0;
        hash = Math.imul(hash, 31) + d | 0;
        const slot = Math.imul(hash, 2654435761) >>> 16;
        if (value)
            slots[slot] = value - 1;
        out[i] = slots[slot];
        if (!klass)
            follow(out[i]);
    });
    return out;
}

// ---- A trace ----

// Changes at which allocations end, and the allocations in that order.
function* orderEnds(begin, life, changes) {
    const count = begin.length;
    const end = life; // in place: one large array less
    const starts = new Uint32Array(changes + 1);
    let ended = 0;
    for (let i = 0; i < count; i++) {
        if (begin[i] >= changes)
            throw damaged("begin", "names a change that is not there");
        if (life[i]) {
            end[i] = begin[i] + life[i];
            if (end[i] >= changes)
                throw damaged("life", "names a change that is not there");
            starts[end[i] + 1]++;
            ended++;
        } else {
            end[i] = NEVER;
        }
        if ((i & SLICE) === SLICE)
            yield i / count;
    }
    for (let i = 0; i < changes; i++)
        starts[i + 1] += starts[i];
    const endOrder = new Uint32Array(ended);
    for (let i = 0; i < count; i++) {
        if (end[i] !== NEVER)
            endOrder[starts[end[i]]++] = i;
        if ((i & SLICE) === SLICE)
            yield i / count;
    }
    return { end, endOrder };
}

function checkBelow(column, limit, name) {
    for (let i = 0; i < column.length; i++)
        if (column[i] >= limit)
            throw damaged(name, "names something that is not there");
}

// Runs a generator to its end; `breathe(share)` may give others their turn.
export async function run(steps, breathe) {
    for (;;) {
        const { done, value } = steps.next();
        if (done)
            return value;
        await breathe(value);
    }
}

// All columns of a trace but what is JSON. `classCount` checks what the columns refer to.
export async function readColumns(all, trace, classCount, breathe) {
    const read = async (name, maker, ...more) => {
        const blob = trace.blobs[name];
        const raw = await inflate(all, blob, name);
        return run(maker(raw, blob.count, name, ...more), breathe);
    };
    const event = await read("change_event", sums, 1);
    const tick = await read("change_time", sums, 0);
    const begin = await read("begin", sums, 0);
    const klass = await read("class", predicted, null);
    const size = await read("size", predicted, klass);
    const life = await read("life", predicted, klass);
    const sizes = await read("sizes", deltas);
    for (const [name, column] of Object.entries({ size, life, class: klass }))
        if (column.length !== begin.length)
            throw damaged(name, "has another length than “begin”");
    if (tick.length !== event.length)
        throw damaged("change_time", "has another length than “change_event”");
    checkBelow(klass, classCount, "class");
    checkBelow(size, sizes.length, "size");
    const phases = {};
    for (const [field, maker] of [["first_event", deltas], ["kind", numbers], ["step", deltas], ["t", deltas]])
        phases[field] = await read(`phase_${field}`, maker);
    const { end, endOrder } = await run(orderEnds(begin, life, event.length), breathe);
    let address = null;
    if (trace.blobs.address?.encoding === "placed") {
        const places = await read("place", numbers);
        const written = await read("address", numbers);
        if (places.length !== classCount)
            throw damaged("place", "has another length than the classes");
        if (written.length === begin.length)
            address = await run(placed(written, { begin, end, endOrder, klass, size, sizes }, places), breathe);
    } else {
        address = await read("address", predicted, klass, Float64Array);
    }
    if (address?.length !== begin.length)
        throw damaged("address", "has another length than “begin”");
    return { event, tick, begin, end, endOrder, klass, size, address, sizes, phases };
}
