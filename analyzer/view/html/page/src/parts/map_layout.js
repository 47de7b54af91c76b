// Segments, the blocks in them and the holes between, at an instant.
import { made } from "../made.js";

/** The block that stays longest: freed last; of those never freed, the oldest. */
function staysLonger(model, a, b) {
    if (b === null)
        return true;
    const endA = model.end[a.allocation], endB = model.end[b.allocation];
    return endA !== endB ? endA > endB : model.begin[a.allocation] < model.begin[b.allocation];
}

function listAt(model, change) {
    const segments = [], blocks = [];
    for (const allocation of model.alive(change)) {
        const klass = model.classes[model.klass[allocation]], address = model.address(allocation);
        if (!address || klass.device !== model.device.index)
            continue;
        const one = { allocation, klass, address, bytes: model.bytes(allocation) };
        if (klass.cached > 0)
            segments.push(
                {...one, pieces: 1, blocks: [], holes: [], blockBytes: 0, holeBytes: 0, largestHole: 0, pin: null });
        else if (klass.cached < 0)
            blocks.push(one);
    }
    const byAddress = (a, b) => a.address - b.address || b.bytes - a.bytes;
    return [segments.sort(byAddress), blocks.sort(byAddress)];
}

/* Mappings of an expandable segment lie side by side. That a block crosses from one to the next shows that the process
 * uses such segments: memory that the driver gave piece by piece is never crossed. */
function crosses(segments, blocks) {
    let next = 0;
    for (let i = 1; i < segments.length; i++) {
        const border = segments[i].address;
        if (segments[i - 1].address + segments[i - 1].bytes !== border)
            continue;
        while (next < blocks.length && blocks[next].address + blocks[next].bytes <= border)
            next++;
        if (next < blocks.length && blocks[next].address < border)
            return true;
    }
    return false;
}

const expandable = new WeakMap(); // by model: whether a block crosses at the peak
function isExpandable(model, segments, blocks) {
    return made(expandable, model, () => crosses(...listAt(model, model.peak))) || crosses(segments, blocks);
}

function merge(segments) {
    const merged = [];
    for (const segment of segments) {
        const last = merged[merged.length - 1];
        if (last && last.address + last.bytes === segment.address) {
            last.bytes += segment.bytes;
            last.pieces++;
        } else {
            merged.push(segment);
        }
    }
    return merged;
}

function fill(model, segment, blocks) {
    let place = segment.address;
    const end = segment.address + segment.bytes;
    const hole = (until) => {
        if (until <= place)
            return;
        segment.holes.push({ address: place, bytes: until - place });
        segment.holeBytes += until - place;
        segment.largestHole = Math.max(segment.largestHole, until - place);
    };
    for (const block of blocks) {
        hole(block.address);
        place = Math.max(place, Math.min(end, block.address + block.bytes));
        segment.blocks.push(block);
        segment.blockBytes += block.bytes;
        if (staysLonger(model, block, segment.pin))
            segment.pin = block;
    }
    hole(end);
}

/** {segments: [{address, bytes, pieces, blocks, holes, blockBytes, holeBytes, largestHole, pin, klass, allocation}…] by address,
 * reserved, blockBytes, holeBytes, emptyBytes, keptBytes, largestHole, outside: blocks of no known segment}. */
export function mapAt(model, change) {
    const [pieces, blocks] = listAt(model, change),
                   segments = isExpandable(model, pieces, blocks) ? merge(pieces) : pieces;
    const found = {
        segments,
        reserved: 0,
        blockBytes: 0,
        holeBytes: 0,
        emptyBytes: 0,
        keptBytes: 0,
        largestHole: 0,
        outside: []
    };
    let next = 0;
    for (const segment of segments) {
        const inside = [];
        while (next < blocks.length && blocks[next].address < segment.address)
            found.outside.push(blocks[next++]);
        while (next < blocks.length && blocks[next].address < segment.address + segment.bytes)
            inside.push(blocks[next++]);
        fill(model, segment, inside);
        found.reserved += segment.bytes;
        found.blockBytes += segment.blockBytes;
        found.holeBytes += segment.holeBytes;
        found[segment.blocks.length ? "keptBytes" : "emptyBytes"] += segment.holeBytes;
        found.largestHole = Math.max(found.largestHole, segment.largestHole);
    }
    for (const block of blocks.slice(next))
        found.outside.push(block);
    return found;
}

/** Lines whose blocks pin segments with holes: [{name, place, segments, bytes, kept, pins}…], those that keep most first. */
export function pinsOf(found) {
    const lines = new Map();
    for (const segment of found.segments) {
        if (!segment.pin || !segment.holeBytes)
            continue;
        const place = segment.pin.klass.place, name = (place && place.name) || "";
        const key = `${place?.file ?? ""}\n${name}`;
        const line = made(lines, key, () => ({ key, name, place, segments: 0, bytes: 0, kept: 0, pin: segment.pin }));
        line.segments++;
        line.bytes += segment.pin.bytes;
        line.kept += segment.holeBytes;
    }
    return [...lines.values()].sort((a, b) => b.kept - a.kept);
}
