// Facts of one device of one trace: the state and what is alive at any change, and where the largest states are.

import { above, Largest, measure, Walker } from "./walk.js";
import { eventAxis, stepAxis, timeAxis } from "./axis.js";
import { Gaps } from "./gaps.js";
import { made } from "./made.js";
import { Names } from "./names.js";
import { rowsOf } from "./data.js";
import { runsOf } from "./whatif.js";

// From the bottom of the picture, as in the terminal. What is not named here is not "in use".
const STACKED = ["parameter", "buffer", "checkpoint_copy", "optimizer_state", "gradient", "other", "input", "activation", "kv_cache", "temporary", "workspace", "communication", "unknown"];
export const APART = ["cached", "context", "host_pinned"]; // in no sum of what is in use
const CHUNK = 4096;
const MOST_LANES = 4; // of requests at once

export function stackedOf(categories) {
    const order = STACKED.map((name) => categories.findIndex((category) => category.name === name)).filter((i) => i >= 0);
    categories.forEach((category, i) => {
        if (!APART.includes(category.name) && !order.includes(i))
            order.push(i);
    });
    return order;
}

// Requests in order, each in the first lane that is free, else in the last: their first and last changes.
function lanesOf(requests, model) {
    const ends = [];
    const all = Array.from(requests?.first_event ?? [], (event, i) => {
        const [first, last] = [event, requests.last_event[i]].map((at) => Math.max(0, model.changeAtEvent(at)));
        const free = ends.findIndex((end) => end <= first);
        const lane = free < 0 ? Math.min(ends.length, MOST_LANES - 1) : free;
        ends[lane] = Math.max(last, ends[lane] ?? 0);
        return { first, last, lane };
    });
    return { all, lanes: ends.length };
}

// What all devices of a trace share.
export class TraceData {
    constructor(head, index, read, readText) {
        this.head = head;
        this.index = index;
        this.trace = head.traces[index];
        this.columns = read.columns;
        const strings = JSON.parse(read.strings);
        const { blobs } = this.trace;
        this.requests = read.named.requests;
        this.names = new Names(this.trace, read.named, strings, JSON.parse(read.sources));
        this.phases = { ...read.named.phases, phase: Array.from(read.named.phases.phase, (text) => strings[text]) };
        this.steps = rowsOf(read.named.steps, blobs.steps, strings);
        this.marks = blobs.marks ? rowsOf(read.named.marks, blobs.marks, strings) : this.trace.marks; // many are in a table
        this.readText = readText;
        this.documents = new Map();
        this.latest = this.latestEnds();
    }

    // The last end among each chunk of allocations: most chunks are all dead at any later change.
    latestEnds() {
        const { end } = this.columns;
        const latest = new Uint32Array(Math.ceil(end.length / CHUNK));
        for (let i = 0; i < end.length; i++)
            if (end[i] > latest[i / CHUNK | 0])
                latest[i / CHUNK | 0] = end[i];
        return latest;
    }

    // Numbers of the steps of any trace of the page.
    async stepsOf(index) {
        const { steps } = this.head.traces[index].blobs;
        return rowsOf(await this.readText(steps, "steps"), steps, []);
    }

    document(name, blob) {
        if (!blob)
            return Promise.resolve(null);
        return made(this.documents, name, () => this.readText(blob, name).then(JSON.parse));
    }
}

export class Model {
    constructor(data, deviceNumber) {
        const { columns, trace } = data;
        const { table, sums } = columns.devices[deviceNumber];
        this.data = data;
        this.columns = columns;
        this.trace = trace;
        this.table = table;
        this.sums = sums;
        this.traces = data.head.traces;
        this.marks = data.marks;
        this.requests = lanesOf(data.requests, this);
        this.names = data.names;
        this.device = trace.devices[deviceNumber];
        this.begin = columns.begin;
        this.end = columns.end;
        this.klass = columns.klass;
        this.classes = data.names.classes;
        this.changes = columns.event.length;
        this.allocations = columns.begin.length;
        this.categories = trace.categories;
        this.phases = data.phases;
        this.stacked = stackedOf(trace.categories);
        // Of the picture, from the ground up; bands.js has others.
        this.bands = this.stacked.map((c) => ({ ...trace.categories[c], index: c, ever: this.ever(c) }));
        this.bandsAt = (change) => this.state(change).categories;
        this.by = "category";
        this.found = null;
        this.walker = new Walker(columns, table, sums);
        this.drawer = new Walker(columns, table, sums);
        this.largest = new Largest(sums.peakMeasure);
        this.pictures = [];
        this.steps = data.steps.filter((step) => step.device === this.device.index);
        this.stepFirstEvents = this.steps.map((step) => step.first_event);
        this.peak = this.device.peak_change;
        this.endChange = this.device.end_change;
        this.gaps = new Gaps(trace, columns.gaps);
        this.axes = { time: timeAxis(this), event: eventAxis(this), step: stepAxis(this) };
        this.driverAt = table.driverAt;
        this.cachedAt = table.cachedCategory;
    }

    axis(name) {
        return this.axes[name] || this.axes.time;
    }

    bytes(allocation) {
        return this.columns.bytes[allocation];
    }

    // 48 bits and a few more: exact in a double.
    address(allocation) {
        return this.columns.address[allocation];
    }

    // ---- Changes ----

    timeOf(change) {
        return change < 0 ? 0 : this.columns.tick[change] * this.trace.tick_ns;
    }

    eventOf(change) {
        return change < 0 ? 0 : this.columns.event[change];
    }

    changeAtTime(ns) {
        return above(this.columns.tick, Math.floor(ns / this.trace.tick_ns)) - 1;
    }

    changeAtEvent(event) {
        return above(this.columns.event, event) - 1;
    }

    phaseRun(event) {
        return above(this.phases.first_event, event) - 1;
    }

    stepOf(change) {
        return this.phases.step[this.phaseRun(this.eventOf(change))] ?? 0;
    }

    phaseOf(change) {
        return this.phases.phase[this.phaseRun(this.eventOf(change))] ?? "other";
    }

    // ---- States ----

    state(at) {
        const change = Math.min(at, this.changes - 1), vector = this.walker.to(change), width = this.categories.length;
        let used = 0;
        for (const c of this.stacked)
            used += vector[c];
        return {
            change, event: this.eventOf(change), t_ns: this.timeOf(change), step: this.stepOf(change), phase: this.phaseOf(change),
            driver_bytes: vector[this.table.driverAt], block_bytes: vector[this.table.blockAt], used_bytes: used,
            categories: Float64Array.from(vector.subarray(0, width)),
            partial: this.gaps.at(change) >= 0, // more was alive than is known here
        };
    }

    // Whether a category has bytes at any moment.
    ever(c) {
        const { sums, table, device, categories } = this;
        return sums.allocated[sums.bins * table.width + c] > 0 || Boolean(device.overview.categories[categories[c].name]?.some(Boolean));
    }

    // Bytes allocated by category in changes from..to.
    allocated(from, to) {
        const until = (change) => {
            const { sums, table, columns } = this;
            const bin = Math.max(0, Math.min(sums.bins - 1, Math.floor((change + 1) / sums.bin)));
            const total = sums.allocated.slice(bin * table.width, bin * table.width + this.categories.length);
            for (let i = sums.born[bin]; i < columns.begin.length && columns.begin[i] <= change; i++)
                if (table.counted[columns.klass[i]])
                    total[table.category[columns.klass[i]]] += this.bytes(i);
            return total;
        };
        const before = until(from - 1);
        return until(to).map((bytes, c) => bytes - before[c]);
    }

    // Allocations begun in changes from..to: [first, behind the last).
    bornIn(from, to) {
        return [from > 0 ? above(this.begin, from - 1) : 0, above(this.begin, to)];
    }

    alive(change) {
        if (this.aliveAt === change)
            return this.aliveThen;
        const { begin, end } = this;
        const { latest } = this.data;
        const born = change < 0 ? 0 : above(begin, change);
        const found = [];
        for (let chunk = 0; chunk * CHUNK < born; chunk++) {
            if (latest[chunk] <= change)
                continue;
            const stop = Math.min(born, (chunk + 1) * CHUNK);
            for (let i = chunk * CHUNK; i < stop; i++)
                if (end[i] > change)
                    found.push(i);
        }
        const here = found.filter((i) => this.classes[this.klass[i]].device === this.device.index || this.classes[this.klass[i]].device === -1);
        this.aliveAt = change;
        this.aliveThen = Uint32Array.from(here);
        return this.aliveThen;
    }

    // ---- Columns of a picture ----

    measure(vector) {
        return measure(vector, this.table, this.device.has_blocks);
    }

    // The largest state of changes low..high-1, exactly. Whole bins are looked up, not walked.
    largestOf(low, high) {
        const { sums, drawer } = this;
        const first = Math.ceil(low / sums.bin);
        const last = Math.floor(high / sums.bin);
        let change = low;
        let value = -Infinity;
        const walk = (from, to) => {
            for (let c = from; c < to; c++) {
                const here = this.gaps.at(c) < 0 ? this.measure(drawer.to(c)) : -Infinity;
                if (here > value) {
                    value = here;
                    change = c;
                }
            }
        };
        if (first >= last) {
            walk(low, high);
        } else {
            walk(low, first * sums.bin);
            const bin = this.largest.among(first, last);
            if (sums.peakMeasure[bin] > value) {
                value = sums.peakMeasure[bin];
                change = sums.peakChange[bin];
            }
            walk(last * sums.bin, high);
        }
        return { change, value };
    }

    // One state for each of `count` columns of lo..hi: the largest of its changes, else the one that goes on.
    // Columns of many changes begin and end at the nearest bin, so that each bin is in one column and none is walked.
    // A column without any moment that is known has gap 1, and the change of the moment before; what the driver gave is
    // known all the time.
    picture(axis, lo, hi, count) {
        const key = `${axis.name} ${lo} ${hi} ${count}`;
        const known = this.pictures.find((one) => one.key === key);
        if (known)
            return known;
        const { table, sums } = this;
        const picture = { key, count, width: table.width, change: new Int32Array(count), gap: new Uint8Array(count), vectors: new Float64Array(count * table.width) };
        const scratch = { best: new Float64Array(table.width) };
        let low = axis.changeAt(lo) + 1;
        for (let column = 0; column < count; column++) {
            const high = Math.max(low, axis.changeAt(lo + ((column + 1) * (hi - lo)) / count) + 1);
            const target = picture.vectors.subarray(column * table.width, (column + 1) * table.width);
            const first = Math.round(low / sums.bin);
            const last = Math.min(sums.bins, Math.round(high / sums.bin));
            const many = high - low >= 2 * sums.bin && last > first;
            const bin = many ? this.largest.among(first, last) : -1;
            if (many && sums.peakMeasure[bin] > -Infinity) {
                picture.change[column] = sums.peakChange[bin];
                target.set(sums.peak.subarray(bin * table.width, (bin + 1) * table.width));
            } else {
                picture.change[column] = many ? -1 : this.walkColumn(low, high, scratch, target);
                const known = picture.change[column] >= low || (high === low && !this.gaps.among(axis.gaps, lo + (column * (hi - lo)) / count, lo + ((column + 1) * (hi - lo)) / count).count);
                if (!known)
                    this.leaveOut(picture, column, high, target);
            }
            low = high;
        }
        // The overview's, the timeline's and that of a part are asked for again and again.
        this.pictures = [picture, ...this.pictures.slice(0, 3)];
        return picture;
    }

    leaveOut(picture, column, high, target) {
        picture.gap[column] = 1;
        picture.change[column] = column ? picture.change[column - 1] : Math.max(-1, this.gaps.beside(high - 1, -1));
        const { driverAt } = this.table;
        const driver = this.drawer.to(high - 1)[driverAt];
        target.fill(0);
        target[driverAt] = driver;
    }

    // -1 if there are changes, but none in a moment that is known.
    walkColumn(low, high, scratch, target) {
        const { drawer } = this;
        if (high === low) {
            target.set(drawer.to(low - 1));
            return low - 1;
        }
        let change = -1;
        let best = -Infinity;
        for (let c = low; c < high; c++) {
            if (this.gaps.at(c) >= 0)
                continue;
            const vector = drawer.to(c);
            const here = this.measure(vector);
            if (here > best) {
                best = here;
                change = c;
                scratch.best.set(vector);
            }
        }
        if (change >= 0)
            target.set(scratch.best);
        return change;
    }

    // What is left without what these groups of advice save.
    whatif(groups) {
        const key = JSON.stringify(groups);
        if (this.left?.key !== key)
            this.left = { key, ...runsOf(this, groups) };
        return this.left;
    }

    // ---- Documents ----

    document(name) {
        return this.data.document(name, this.trace.blobs[name]);
    }

    diff() {
        return this.data.document("diff", this.data.head.diff);
    }
}
