// A made-up training run of any length, as a page's head and data, with its truth computed the plain way.
import { Blobs } from "./encode.mjs";

export const CATEGORIES = ["parameter", "buffer", "gradient", "optimizer_state", "activation", "input", "temporary", "workspace", "communication", "context", "cached", "host_pinned", "unknown"];
const LABELS = { optimizer_state: "optimizer", host_pinned: "pinned host" };
const MIB = 1 << 20;

export function random(seed) {
    let state = seed >>> 0;
    return () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return state / 4294967296;
    };
}

class Strings {
    constructor() {
        this.list = [""];
        this.found = new Map([["", 0]]);
    }

    of(text) {
        if (!this.found.has(text)) {
            this.found.set(text, this.list.length);
            this.list.push(text);
        }
        return this.found.get(text);
    }
}

// A trace is a list of allocations {begin, end (change or -1), class, bytes, address} and of changes {event, t}.
export function makeTrace({ events = 4000, layers = 12, seed = 1, name = "rank 0", steps: wanted, leak = false, device = 0, hostile = false, owners = 0 } = {}) {
    const rand = random(seed);
    const strings = new Strings();
    const tables = { frames: [], stacks: [[]], tensors: [], classes: [] };
    const evil = hostile ? "</script><img src=x onerror=alert(1)>\u202e\u0007" : "";
    const frame = (func, file, line) => tables.frames.push({
        frame: tables.frames.length, kind: "python", function: func, file, line, module: "", name: `${file.split("/").pop()}:${line} ${func}`,
    }) - 1;
    const train = frame("train", "/home/user/train.py", 88);
    const made = new Map();
    const classFor = (category, kind, module, op, phase, line, more = {}) => {
        const key = [category, kind, module, op, phase, line].join("|");
        if (!made.has(key)) {
            const leaf = frame(`${op}${evil}`, "/home/user/model.py", line);
            const stack = tables.stacks.push([leaf, train]) - 1;
            const block = kind === "block";
            const tensor = more.tensor ? tables.tensors.push({
                name: more.tensor, role: category, module, dtype: "float32", shape: "1024x1024", bytes: more.bytes, share_bytes: more.bytes, evidence: "exact", next: 0,
            }) : 0;
            made.set(key, tables.classes.push({
                device: more.host ? -1 : device, kind, category, evidence: block ? "strong" : "exact", rule: "", phase, owner: more.tensor ?? "",
                module, module_class: module ? "Linear" : "", operator: `aten::${op}`, stack, forward_stack: 0,
                place_name: `model.py:${line} ${op}`, place_file: "/home/user/model.py", place_line: line, place_function: op, tensors: tensor,
                counted: kind === "segment" ? 0 : 1, cached: kind === "segment" ? 1 : block ? -1 : 0, driver: block || more.host ? 0 : 1,
            }) - 1);
        }
        return made.get(key);
    };
    const state = { allocations: [], changes: [], event: 0, t: 5e6, phases: [], steps: [], address: 0x7f0000000000 };
    const tick = (slow = 1) => {
        state.t += Math.round((4000 + 9000 * rand()) * slow);
        return state.changes.push({ event: state.event++, t: state.t }) - 1;
    };
    const free = new Map();
    const alloc = (klass, bytes, slow) => {
        const slots = free.get(bytes) ?? [];
        const address = slots.pop() ?? (state.address += Math.ceil(bytes / 512) * 512) - Math.ceil(bytes / 512) * 512;
        return state.allocations.push({ begin: tick(slow), end: -1, class: klass, bytes, address }) - 1;
    };
    const release = (i) => {
        const allocation = state.allocations[i];
        allocation.end = tick();
        if (!free.has(allocation.bytes))
            free.set(allocation.bytes, []);
        free.get(allocation.bytes).push(allocation.address);
    };
    const phase = (kind, step) => state.phases.push({ first: state.event, kind, step, t: state.t });

    phase("init", 0);
    alloc(classFor("context", "context", "", "context", "init", 1), 300 * MIB, 200);
    const segments = Array.from({ length: 8 }, (_, i) => alloc(classFor("cached", "segment", "", "segment", "init", 2), (i < 7 ? 64 : 256) * MIB));
    void segments;
    const sizes = Array.from({ length: layers }, (_, l) => (1 + (l % 4)) * MIB + 512 * l);
    sizes.forEach((bytes, l) => alloc(classFor("parameter", "block", `layers.${l}`, "empty", "init", 20 + l, { tensor: `layers.${l}.weight`, bytes }), bytes));
    for (let i = 0; i < owners; i++)
        alloc(classFor("parameter", "block", "table", "empty", "init", 1000 + i, { tensor: `table.${i}`, bytes: 2 * MIB }), 2 * MIB);
    alloc(classFor("host_pinned", "pinned", "", "pin_memory", "init", 3, { host: true }), 12 * MIB);
    const perStep = layers * 10 + 4;
    const count = wanted ?? Math.max(2, Math.floor((events - state.event) / perStep));
    state.steps.push({ step: 0, first_event: 0, last_event: state.event - 1, t_ns: 0, duration_ns: state.t });
    let optimizer = false;
    for (let step = 1; step <= count; step++) {
        const from = { event: state.event, t: state.t };
        phase("data", step);
        const input = alloc(classFor("input", "block", "", "to", "data", 40), 2 * MIB, 30);
        phase("forward", step);
        const activations = [];
        for (let l = 0; l < layers; l++) {
            const large = step % 17 === 0 ? 2 : 1;
            activations.push(alloc(classFor("activation", "block", `layers.${l}.mlp`, "addmm", "forward", 50 + l), 2 * sizes[l] * large));
            const temporary = alloc(classFor("temporary", "block", `layers.${l}`, "softmax", "forward", 70 + l), sizes[l]);
            activations.push(alloc(classFor("activation", "block", `layers.${l}.attn`, "gelu", "forward", 90 + l), sizes[l]));
            release(temporary);
        }
        phase("backward", step);
        const gradients = [];
        for (let l = layers - 1; l >= 0; l--) {
            const workspace = l % 5 === 0 ? alloc(classFor("workspace", "block", "", "cublas", "backward", 110), 8 * MIB) : -1;
            gradients.push(alloc(classFor("gradient", "block", `layers.${l}`, "mm_backward", "backward", 120 + l, { tensor: `layers.${l}.weight.grad`, bytes: sizes[l] }), sizes[l]));
            release(activations[2 * l + 1]);
            release(activations[2 * l]);
            if (workspace >= 0)
                release(workspace);
        }
        phase("optimizer", step);
        if (!optimizer)
            sizes.forEach((bytes, l) => alloc(classFor("optimizer_state", "block", `layers.${l}`, "zeros_like", "optimizer", 140 + l, { tensor: `layers.${l}.weight · exp_avg`, bytes }), bytes));
        optimizer = true;
        if (leak)
            alloc(classFor("activation", "block", "", "append_loss", "optimizer", 160), count > 1000 ? 4096 : MIB / 2);
        gradients.forEach(release);
        release(input);
        state.steps.push({ step, first_event: from.event, last_event: state.event - 1, t_ns: from.t, duration_ns: state.t - from.t });
    }
    return { ...state, tables, strings, name, device, layers };
}

// Bytes by category and of the driver just after each change, the plain way.
export function truth(trace, device = trace.device) {
    const changes = trace.changes.map(() => []);
    trace.allocations.forEach((allocation) => {
        changes[allocation.begin].push([allocation, 1]);
        if (allocation.end >= 0)
            changes[allocation.end].push([allocation, -1]);
    });
    const now = { categories: new Array(CATEGORIES.length).fill(0), driver: 0, blocks: 0 };
    return changes.map((list) => {
        for (const [allocation, sign] of list) {
            const row = trace.tables.classes[allocation.class];
            if (row.device !== device && row.device !== -1)
                continue;
            now.categories[CATEGORIES.indexOf(row.category)] += sign * allocation.bytes * row.counted;
            if (row.device === device) {
                now.categories[CATEGORIES.indexOf("cached")] += sign * allocation.bytes * row.cached;
                now.driver += sign * allocation.bytes * row.driver;
                now.blocks += sign * allocation.bytes * (row.kind === "block");
            }
        }
        return { categories: [...now.categories], driver: now.driver, blocks: now.blocks };
    });
}

// Head and blobs of several traces.
// The head's gaps: [[from, to]…] as shares of the changes.
export function gapsOf({ changes }, shares) {
    const at = (share) => changes[Math.floor(share * (changes.length - 1))];
    const gaps = { first_event: [], end_event: [], omitted: [], t_ns: [], end_ns: [] };
    for (const [from, to] of shares) {
        gaps.first_event.push(at(from).event + 1);
        gaps.end_event.push(at(to).event);
        gaps.omitted.push(1000);
        gaps.t_ns.push(at(from).t);
        gaps.end_ns.push(at(to).t);
    }
    return gaps;
}

export function makePage(traces, { title = "", documents = {}, diff = null } = {}) {
    const blobs = new Blobs();
    const head = { format: "vramtrace.page/2", version: "0.2.0", title, traces: traces.map((trace) => headOf(trace, blobs, documents)), diff: diff && blobs.json(diff) };
    return { head, base64: blobs.base64() };
}

function headOf(trace, blobs, documents) {
    const { allocations, changes, tables, strings } = trace;
    const duration = trace.t + 1e6;
    let tick = 1000;
    while (duration / tick > 2 ** 24)
        tick *= 2;
    const states = overviewOf(trace, duration);
    const out = {
        name: trace.name, file: `${trace.name}.vrt`, pid: 4711, command: "python train.py --batch 32", complete: true, losses: trace.losses ?? [],
        verdict: [`Peak ${(states.peakBytes / MIB).toFixed(2)} MiB in use. Most of it is activations.`, "No leak."],
        duration_ns: duration, events: trace.event, steps: Math.max(0, trace.steps.length - 1), allocations: allocations.length, changes: changes.length, tick_ns: tick,
        devices: [{ index: trace.device, name: "Simulated GPU", total_bytes: 80 * 2 ** 30, peak_change: states.peak, end_change: changes.length - 1, has_blocks: true, served: ["served     2 requests"], median_peak_bytes: 0, median_duration_ns: 0,
            overview: states.overview }],
        categories: CATEGORIES.map((name) => ({ name, label: LABELS[name] ?? name })),
        marks: trace.marks ?? [], failed_requests: trace.failed_requests ?? [], blobs: {},
    };
    const column = (encoding, rows, pick) => [encoding, rows.map(pick)];
    // A table of rows that have their columns by name; the encoding is chosen by what they have.
    const table = (rows, names = Object.keys(rows[0] ?? {})) => blobs.table(Object.fromEntries(names.map((name) =>
        [name, column(typeof rows[0]?.[name] === "string" ? "texts" : "deltas", rows, (row) => row[name])])), strings);
    out.blobs = {
        changes: blobs.table({ event: column("deltas", changes, ({ event }) => event), tick: column("deltas", changes, ({ t }) => Math.floor(t / tick)) }),
        allocations: blobs.table({
            begin: column("deltas", allocations, ({ begin }) => begin), life: column("numbers", allocations, ({ begin, end }) => (end < 0 ? 0 : end - begin)),
            class: column("deltas", allocations, (a) => a.class), bytes: column("numbers", allocations, ({ bytes }) => bytes),
            address: column("numbers", allocations, ({ address }) => address),
        }),
        classes: table(tables.classes), frames: table(tables.frames), tensors: table(tables.tensors),
        stacks: table(tables.stacks.flatMap((frames, stack) => frames.map((frame) => ({ stack, frame })))),
        phases: table(trace.phases.map(({ first, kind, step, t }) => ({ first_event: first, phase: kind, step, t_ns: t })), ["first_event", "phase", "step", "t_ns"]),
        steps: table(stepsOf(trace, states)),
    };
    if (trace.savings)
        out.blobs.savings = table(trace.savings);
    out.blobs.strings = blobs.json(strings.list);
    out.blobs.sources = blobs.json({});
    for (const [name, document] of Object.entries(documents))
        out.blobs[name] = blobs.json(document);
    return out;
}

function stepsOf(trace, states) {
    return trace.steps.map((s) => ({
        device: trace.device, step: s.step, first_event: s.first_event, last_event: s.last_event, t_ns: s.t_ns, duration_ns: s.duration_ns,
        large: s.step && s.step % 17 === 0 ? 1 : 0, slow: 0, peak_event: states.peakEvents[s.step] ?? s.first_event,
        peak_used_bytes: states.peaks[s.step] ?? 0, end_used_bytes: 0,
    }));
}

function overviewOf(trace, duration) {
    const columns = 500;
    const width = CATEGORIES.length;
    const overview = { columns, t_ns: [], categories: Object.fromEntries(CATEGORIES.map((name) => [name, new Array(columns).fill(0)])), driver_bytes: new Array(columns).fill(0) };
    const now = new Float64Array(width + 2);
    const ends = Array.from(trace.allocations.keys()).filter((i) => trace.allocations[i].end >= 0).sort((a, b) => trace.allocations[a].end - trace.allocations[b].end);
    const result = { overview, peak: 0, peakBytes: 0, peaks: {}, peakEvents: {} };
    const best = new Float64Array(columns).fill(-1);
    let born = 0;
    let dead = 0;
    let most = -1;
    let step = 0;
    const add = ({ class: k, bytes }, sign) => {
        const row = trace.tables.classes[k];
        now[CATEGORIES.indexOf(row.category)] += sign * bytes * row.counted;
        now[CATEGORIES.indexOf("cached")] += sign * bytes * row.cached;
        now[width] += sign * bytes * row.driver;
        now[width + 1] += row.kind === "block" ? sign * bytes : 0;
    };
    trace.changes.forEach(({ event, t }, change) => {
        while (dead < ends.length && trace.allocations[ends[dead]].end <= change)
            add(trace.allocations[ends[dead++]], -1);
        while (born < trace.allocations.length && trace.allocations[born].begin <= change)
            add(trace.allocations[born++], 1);
        const column = Math.min(columns - 1, Math.floor((t / duration) * columns));
        while (step + 1 < trace.steps.length && trace.steps[step + 1].first_event <= event)
            step++;
        if (now[width + 1] > (result.peaks[step] ?? -1)) {
            result.peaks[step] = now[width + 1];
            result.peakEvents[step] = event;
        }
        if (now[width + 1] > most) {
            most = now[width + 1];
            result.peak = change;
            result.peakBytes = most;
        }
        if (now[width + 1] > best[column]) {
            best[column] = now[width + 1];
            overview.t_ns[column] = t;
            CATEGORIES.forEach((name, c) => {
                overview.categories[name][column] = now[c];
            });
            overview.driver_bytes[column] = now[width];
        }
    });
    for (let c = 1; c < columns; c++)
        if (best[c] < 0) {
            overview.t_ns[c] = (c * duration) / columns;
            for (const name of CATEGORIES)
                overview.categories[name][c] = overview.categories[name][c - 1];
            overview.driver_bytes[c] = overview.driver_bytes[c - 1];
        }
    return result;
}

// The page as the C writer makes it, from the template with its marks.
export function fill(template, { head, base64 }) {
    const json = JSON.stringify(head).replaceAll("<", "\\u003c").replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
    const [before, rest] = template.split("@HEAD@");
    const [between, after] = rest.split("@DATA@");
    return [before, json, between, base64, after].join("");
}
