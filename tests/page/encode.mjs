// Writes data as the page reads it ("vramtrace.page/1"): a second implementation of the contract, for tests only.
import { deflateRawSync } from "node:zlib";

export function varints(values) {
    const out = [];
    for (let value of values) {
        while (value >= 128) {
            out.push((value % 128) | 128);
            value = Math.floor(value / 128);
        }
        out.push(value);
    }
    return Uint8Array.from(out);
}

// The same into one growing buffer: millions of values.
class Writer {
    constructor() {
        this.bytes = new Uint8Array(1 << 16);
        this.at = 0;
    }

    put(value) {
        if (this.at + 10 > this.bytes.length) {
            const more = new Uint8Array(this.bytes.length * 2);
            more.set(this.bytes);
            this.bytes = more;
        }
        while (value >= 128) {
            this.bytes[this.at++] = (value % 128) | 128;
            value = Math.floor(value / 128);
        }
        this.bytes[this.at++] = value;
    }

    done() {
        return this.bytes.subarray(0, this.at);
    }
}

export function numbers(values) {
    const writer = new Writer();
    for (const value of values)
        writer.put(value);
    return writer.done();
}

export function deltas(values) {
    const writer = new Writer();
    let last = 0;
    for (const value of values) {
        const difference = value - last;
        writer.put(difference < 0 ? -difference * 2 - 1 : difference * 2);
        last = value;
    }
    return writer.done();
}

export function predicted(values, classes, ofClasses) {
    const writer = new Writer();
    const slots = new Map();
    for (let i = 0; i < values.length; i++) {
        let hash = 0n;
        for (let back = ofClasses ? 1 : 0; back < (ofClasses ? 5 : 4); back++)
            hash = (hash * 31n + BigInt(i >= back ? classes[i - back] : 0)) & 0xffffffffn;
        const slot = Number(((hash * 2654435761n) & 0xffffffffn) >> 16n);
        writer.put((slots.get(slot) ?? 0) === values[i] ? 0 : values[i] + 1);
        slots.set(slot, values[i]);
    }
    return writer.done();
}

// The same with 32-bit numbers: for millions.
export function predictedFast(values, classes, ofClasses) {
    const writer = new Writer();
    const slots = new Float64Array(65536);
    const shift = ofClasses ? 1 : 0;
    const at = (i) => (i >= 0 ? classes[i] : 0);
    for (let i = 0; i < values.length; i++) {
        let hash = at(i - shift);
        for (let back = 1; back < 4; back++)
            hash = (Math.imul(hash, 31) + at(i - shift - back)) >>> 0;
        const slot = Math.imul(hash, 2654435761) >>> 16;
        writer.put(slots[slot] === values[i] ? 0 : values[i] + 1);
        slots[slot] = values[i];
    }
    return writer.done();
}

export class Blobs {
    constructor() {
        this.parts = [];
        this.offset = 0;
    }

    add(raw, encoding, count) {
        const packed = deflateRawSync(raw, { level: 6 });
        const blob = { offset: this.offset, bytes: packed.length, raw_bytes: raw.length, count, encoding };
        this.parts.push(packed);
        this.offset += packed.length;
        return blob;
    }

    json(value) {
        return this.add(Buffer.from(JSON.stringify(value)), "json", 1);
    }

    base64() {
        return Buffer.concat(this.parts).toString("base64");
    }
}
