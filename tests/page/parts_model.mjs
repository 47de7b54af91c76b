// A model as the page's core gives it to the parts, made from a list of allocations without any of its code:
// everything is counted by walking the whole list.
export const NEVER = 0xffffffff;
export const CATEGORIES = [
    "parameter", "buffer", "gradient", "optimizer_state", "activation", "input", "temporary", "workspace",
    "communication", "context", "cached", "host_pinned", "unknown"
];
const MiB = 1 << 20;

export function makeModel(classes, allocations, more = {}) {
    const changes = more.changes ??
        1 + allocations.reduce((last, { begin, end }) => Math.max(last, begin, end === NEVER ? 0 : end), 0);
    const model = {
        changes,
        classes,
        categories: CATEGORIES.map((name) => ({ name, label: name.replace("_", " ") })),
        device: { index: 0, name: "GPU 0", total_bytes: 80 * 1024 * MiB, has_blocks: true },
        stacked: [0, 1, 3, 2, 5, 4, 6, 7, 8, 12],
        names: { sources: more.sources || {} },
        traces: more.traces || [],
        trace: { failed_requests: [], marks: [], ...more.trace },
        axis: () => ({
            name: "event",
            lo: 0,
            hi: changes * 2,
            least: 1,
            of: (change) => change * 2,
            ticks: (lo, hi) => [{ x: lo, text: String(Math.round(lo)) }, { x: hi, text: String(Math.round(hi)) }],
            changeAt: (x) => Math.min(changes - 1, Math.floor(x / 2))
        }),
        picture(axis, lo, hi, count) {
            const change = new Int32Array(count);
            for (let i = 0, low = axis.changeAt(lo) + 1; i < count; i++) {
                const high = Math.max(low, axis.changeAt(lo + ((i + 1) * (hi - lo)) / count) + 1);
                let best = -1;
                change[i] = low - 1;
                for (let c = low; c < high; c++)
                    if (model.state(c).block_bytes > best)
                        [best, change[i]] = [model.state(c).block_bytes, c];
                low = high;
            }
            return { count, change };
        },
        diff: async () => more.diff || null,
        begin: Uint32Array.from(allocations, (one) => one.begin),
        end: Uint32Array.from(allocations, (one) => one.end),
        klass: Uint32Array.from(allocations, (one) => one.klass),
        bytes: (i) => allocations[i].bytes,
        address: (i) => allocations[i].address ?? 0,
        alive: (change) => Uint32Array.from(allocations.keys())
                               .filter((i) => allocations[i].begin <= change && change < allocations[i].end),
        bornIn: (from, to) => [allocations.filter((one) => one.begin < from).length,
            allocations.filter((one) => one.begin <= to).length],
        timeOf: (change) => change * 1e6,
        eventOf: (change) => change * 2,
        changeAtEvent: (event) => Math.max(0, Math.min(changes - 1, Math.floor(event / 2))),
        changeAtTime: (t_ns) => Math.max(0, Math.min(changes - 1, Math.floor(t_ns / 1e6))),
        stepOf: (change) => (more.stepOf ? more.stepOf(change) : 0),
        steps: more.steps || [],
        phases: [],
        document: async (name) => (more.documents || {})[name] ?? null,
        state(change) {
            const categories = new Float64Array(CATEGORIES.length);
            let driver = 0, blocks = 0;
            for (const i of model.alive(change)) {
                const klass = classes[model.klass[i]], bytes = model.bytes(i);
                if (klass.counted)
                    categories[CATEGORIES.indexOf(klass.category)] += bytes;
                categories[CATEGORIES.indexOf("cached")] += (klass.cached || 0) * bytes;
                if (klass.driver)
                    driver += bytes;
                if (klass.kind === "block")
                    blocks += bytes;
            }
            const used = categories.reduce(
                (sum, bytes, c) => (["cached", "context", "host_pinned"].includes(CATEGORIES[c]) ? sum : sum + bytes),
                0);
            return {
                change,
                event: change * 2,
                t_ns: change * 1e6,
                step: model.stepOf(change),
                phase: more.phaseOf ? more.phaseOf(change) : "forward",
                driver_bytes: driver,
                used_bytes: used,
                block_bytes: blocks,
                categories
            };
        },
    };
    let peak = 0, most = -1;
    for (let change = 0; change < Math.min(changes, more.peakWithin ?? 3000); change++) {
        const bytes = model.state(change).block_bytes;
        if (bytes > most)
            [peak, most] = [change, bytes];
    }
    model.peak = peak;
    return model;
}

export function klass(fields) {
    return {
        device: 0,
        kind: "block",
        category: "unknown",
        evidence: "strong",
        phase: "forward",
        stack: [],
        forward: [],
        place: null,
        module: "",
        module_class: "",
        operator: "",
        rule: "",
        counted: 1,
        cached: -1,
        driver: 0,
        tensors: [],
        owner: "",
        ...fields
    };
}

/** Training: `layers` layers, `steps` steps; blocks laid out first-fit in segments of 64 MiB. */
export function training(layers = 6, steps = 4, hostile = false) {
    const classes = [], allocations = [], known = new Map();
    const stack = (line, operator) =>
        [{ kind: "native", function: "c10::alloc", file: "", line: 0, module: "/lib/libc10_cuda.so", name: "" }, {
            kind: "python",
            function: "forward",
            file: "/src/model.py",
            line,
            module: "",
            name: `src/model.py:${line} forward`
        },
            {
                kind: "python",
                function: "main",
                file: "/src/train.py",
                line: 30,
                module: "",
                name: "src/train.py:30 main"
            }];
    const classOf = (fields) => {
        const key = JSON.stringify(fields);
        if (!known.has(key))
            known.set(key, classes.push(klass({
                ...fields,
                stack: fields.line ? stack(fields.line) : [],
                place: fields.line ? {
                    name: `src/model.py:${fields.line} forward`,
                    file: "/src/model.py",
                    line: fields.line,
                    function: "forward"
                }
                                   : null
            })) - 1);
        return known.get(key);
    };
    const segments = [];
    let change = 0, step = 0, phase = "init";
    const stepAt = [], phaseAt = [];
    const tick = () => {
        stepAt[change] = step;
        phaseAt[change] = phase;
        return change++;
    };
    const place = (bytes) => {
        for (const segment of segments) {
            segment.held.sort((a, b) => a.address - b.address);
            let at = segment.address;
            for (const held of segment.held) {
                if (held.address - at >= bytes)
                    break;
                at = held.address + held.bytes;
            }
            if (segment.address + segment.bytes - at >= bytes)
                return [segment, at];
        }
        const segment = {
            address: 0x7f0000000000 + segments.length * 256 * MiB,
            bytes: Math.max(64 * MiB, bytes),
            held: []
        };
        allocations.push({
            klass: classOf({ kind: "segment", category: "cached", counted: 0, cached: 1, driver: 1 }),
            begin: tick(),
            end: NEVER,
            bytes: segment.bytes,
            address: segment.address
        });
        segments.push(segment);
        return [segment, segment.address];
    };
    const make = (fields, bytes) => {
        const [segment, address] = place(bytes);
        const one = { klass: classOf(fields), begin: tick(), end: NEVER, bytes, address, segment };
        segment.held.push(one);
        allocations.push(one);
        return one;
    };
    const free = (one) => {
        one.end = tick();
        one.segment.held.splice(one.segment.held.indexOf(one), 1);
    };
    const tensor = (name, role, bytes, share) => ({
        name,
        role,
        module: name.split(" ")[0].replace(/\.[^.]*$/, ""),
        dtype: "float32",
        shape: `${bytes / 4}`,
        bytes,
        share_bytes: share ?? bytes,
        evidence: "exact"
    });
    const wicked = hostile ? "</script><img src=x onerror=alert(1)>\u202e\"'😀\n" +
            "x".repeat(10000)
                           : "layers";
    allocations.push({
        klass: classOf({ kind: "context", category: "context", cached: 0, driver: 1, owner: "CUDA context" }),
        begin: tick(),
        end: NEVER,
        bytes: 300 * MiB
    });
    allocations.push({
        klass: classOf({ kind: "host", category: "host_pinned", cached: 0, driver: 0, device: -1 }),
        begin: tick(),
        end: NEVER,
        bytes: 4 * MiB
    });
    const states = [];
    for (let l = 0; l < layers; l++) {
        const module = `${wicked}.${l}.mlp`;
        make({
            category: "parameter",
            module,
            module_class: "Linear",
            owner: `${module}.weight`,
            evidence: "exact",
            line: 10 + l,
            operator: "aten::empty",
            phase: "init",
            tensors: [tensor(`${module}.weight`, "parameter", 3 * MiB), tensor(`${module}.bias`, "parameter", MiB, MiB)]
        },
            4 * MiB);
    }
    for (step = 1; step <= steps; step++) {
        phase = "forward";
        const activations = [], gradients = [];
        for (let l = 0; l < layers; l++) {
            activations.push(make({
                category: "activation",
                module: `${wicked}.${l}.mlp`,
                module_class: "Linear",
                owner: `${wicked}.${l}.mlp · activation`,
                line: 41 + l,
                operator: "aten::linear"
            },
                (8 + l) * MiB));
            free(make({
                category: "temporary",
                module: `${wicked}.${l}.mlp`,
                module_class: "Linear",
                owner: "temporary",
                line: 60,
                operator: "aten::gelu"
            },
                2 * MiB + 512));
        }
        phase = "backward";
        for (let l = layers - 1; l >= 0; l--) {
            gradients.push(make({
                category: "gradient",
                module: `${wicked}.${l}.mlp`,
                module_class: "Linear",
                owner: `${wicked}.${l}.mlp.weight · grad`,
                line: 80,
                operator: "aten::mm",
                phase: "backward"
            },
                4 * MiB));
            free(activations[l]);
        }
        phase = "optimizer";
        for (let l = 0; l < layers && step === 1; l++)
            states.push(make({
                category: "optimizer_state",
                owner: `${wicked}.${l}.mlp.weight · exp_avg`,
                line: 90,
                phase: "optimizer"
            },
                8 * MiB));
        gradients.forEach(free);
        make({ category: "activation", owner: "history", line: 99, phase: "forward" }, MiB);
    }
    const starts = [];
    stepAt.forEach((one, i) => {
        if (stepAt[i - 1] !== one)
            starts.push({ step: one, change: i });
    });
    return {
        classes,
        allocations,
        stepOf: (at) => stepAt[Math.min(at, stepAt.length - 1)],
        phaseOf: (at) => phaseAt[Math.min(at, phaseAt.length - 1)],
        starts,
        changes: change
    };
}
