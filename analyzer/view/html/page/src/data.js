// The page's tables to typed arrays ("vramtrace.page/2"). Runs in a worker, and in the page itself where none may start.
// Long work is generators that yield now and then, so that the page can stay alive between slices.

export class DataError extends Error {}

const SLICE = 0x40000; // so many at once
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
        throw new DataError("The data in this page is damaged: it is not base64. Write the page again with “vramtrace html”.");
    }
}

function damaged(name, what) {
    return new DataError(`The data in this page is damaged: “${name}” ${what}. Copy the file again, or write it again with “vramtrace html”.`);
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
            .pipeThrough(new DecompressionStream("deflate"));
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

// ---- Tables ----

// Those of whole numbers below 2 ** 32; the others are doubles, as addresses and bytes need.
const SMALL = new Set(["begin", "life", "class", "event", "tick"]);

// `to - from` unsigned LEB128 numbers into `out`; returns where the next one begins. `deltas`: they are differences, of which
// 0, -1, 1, -2 … are written as 0, 1, 2, 3 …
function readNumbers(raw, at, out, from, to, deltas) {
    let last = from ? out[from - 1] : 0;
    for (let i = from; i < to; i++) {
        let byte = raw[at++];
        let value = byte & 0x7f;
        for (let scale = 128; byte & 0x80; scale *= 128) {
            byte = raw[at++];
            value += (byte & 0x7f) * scale;
        }
        if (deltas)
            value = last += value % 2 ? -(value + 1) / 2 : value / 2;
        out[i] = value;
    }
    return at;
}

// A table's columns by their names. Those of texts have numbers of strings.
export function* columnsOf(raw, { rows, columns }, name) {
    const table = { rows };
    const values = rows * Object.keys(columns).length;
    let at = 0, done = 0;
    for (const [column, encoding] of Object.entries(columns)) {
        const out = new (encoding === "texts" || SMALL.has(column) ? Uint32Array : Float64Array)(rows);
        for (let from = 0; from < rows; from += SLICE) {
            at = readNumbers(raw, at, out, from, Math.min(rows, from + SLICE), encoding === "deltas");
            yield (done + from) / values;
        }
        done += rows;
        table[column] = out;
    }
    if (at !== raw.length)
        throw damaged(name, at < raw.length ? "is too long" : "ends too early");
    return table;
}

// Its rows as objects, with their texts.
export function rowsOf(table, { columns }, strings) {
    return Array.from({ length: table.rows }, (_, i) => {
        const row = {};
        for (const name of Object.keys(columns))
            row[name] = columns[name] === "texts" ? strings[table[name][i]] ?? "" : table[name][i];
        return row;
    });
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
            throw damaged("allocations", "names a change that is not there");
        if (life[i]) {
            end[i] = begin[i] + life[i];
            if (end[i] >= changes)
                throw damaged("allocations", "names a change that is not there");
            starts[end[i] + 1]++;
            ended++;
        } else {
            end[i] = NEVER;
        }
        if ((i & SLICE - 1) === SLICE - 1)
            yield i / count;
    }
    for (let i = 0; i < changes; i++)
        starts[i + 1] += starts[i];
    const endOrder = new Uint32Array(ended);
    for (let i = 0; i < count; i++) {
        if (end[i] !== NEVER)
            endOrder[starts[end[i]]++] = i;
        if ((i & SLICE - 1) === SLICE - 1)
            yield i / count;
    }
    return { end, endOrder };
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

// All tables of a trace: allocations and changes as one object of columns, the others by name.
export async function readTables(all, trace, breathe) {
    const blobs = Object.entries(trace.blobs).filter(([, blob]) => blob.columns);
    const total = blobs.reduce((sum, [, blob]) => sum + blob.raw_bytes, 1);
    /** @type {Object<string, any>} */
    const tables = {};
    let done = 0;
    for (const [name, blob] of blobs) {
        const raw = await inflate(all, blob, name);
        tables[name] = await run(columnsOf(raw, blob, name), (share) => breathe((done + share * raw.length) / total));
        done += raw.length;
    }
    const { changes, allocations, ...named } = tables;
    if (allocations.class.some((one) => one >= named.classes.rows))
        throw damaged("allocations", "names a class that is not there");
    const { begin, life, class: klass, bytes, address } = allocations;
    const { end, endOrder } = await run(orderEnds(begin, life, changes.rows), () => breathe(1));
    return { columns: { event: changes.event, tick: changes.tick, begin, end, endOrder, klass, bytes, address }, named };
}
