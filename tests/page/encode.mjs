// Writes data as the page reads it ("vramtrace.page/2"): a second implementation of the contract, for tests only.
import { deflateSync } from "node:zlib";

function* varint(value) {
    for (; value >= 128; value = Math.floor(value / 128))
        yield (value % 128) | 128;
    yield value;
}

export function numbers(values) {
    const out = [];
    for (const value of values)
        out.push(...varint(value));
    return Uint8Array.from(out);
}

export function deltas(values) {
    let last = 0;
    return numbers(Array.from(values, (value) => {
        const difference = value - last;
        last = value;
        return difference < 0 ? -difference * 2 - 1 : difference * 2;
    }));
}

export class Blobs {
    constructor() {
        this.parts = [];
        this.offset = 0;
    }

    add(raw, more) {
        const packed = deflateSync(raw, { level: 6 });
        const blob = { offset: this.offset, bytes: packed.length, raw_bytes: raw.length, ...more };
        this.parts.push(packed);
        this.offset += packed.length;
        return blob;
    }

    json(value) {
        return this.add(Buffer.from(JSON.stringify(value)));
    }

    // `columns`: { name: [encoding, values] }; `strings` numbers texts.
    table(columns, strings) {
        const all = Object.values(columns);
        const raw = all.map(([encoding, values]) =>
            encoding === "deltas" ? deltas(values) : numbers(encoding === "texts" ? values.map((text) => strings.of(text)) : values));
        const encodings = Object.entries(columns).map(([name, [encoding]]) => [name, encoding]);
        return this.add(Buffer.concat(raw), { rows: all[0]?.[1].length ?? 0, columns: Object.fromEntries(encodings) });
    }

    base64() {
        return Buffer.concat(this.parts).toString("base64");
    }
}
