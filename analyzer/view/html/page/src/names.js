// Names of a trace: who made each class of allocations, with every reference followed.

export class Names {
    constructor(trace, tables) {
        const { strings } = tables;
        const text = (index) => strings[index] ?? "";
        this.frames = tables.frames.map(([kind, func, file, line, module, name]) => ({
            kind: kind ? "python" : "native", function: text(func), file: text(file), line, module: text(module), name: text(name),
        }));
        this.stacks = tables.stacks.map((frames) => frames.map((frame) => this.frames[frame]));
        this.places = tables.places.map((place, index) => index ? {
            name: text(place[0]), file: text(place[1]), line: place[2], function: text(place[3]), frame: this.frames[place[4]] ?? null,
        } : null);
        this.tensors = tables.tensors.map(([name, role, module, dtype, shape, bytes, share, evidence]) => ({
            name: text(name), role: text(role), module: text(module), dtype: text(dtype), shape: text(shape), bytes, share_bytes: share,
            evidence: trace.evidence[evidence] ?? "",
        }));
        this.sources = {};
        for (const [file, lines] of Object.entries(tables.sources || {}))
            this.sources[text(file)] = lines;
        this.classes = tables.classes.map((row) => this.classOf(trace, tables, row, text));
    }

    classOf(trace, tables, row, text) {
        const [device, kind, category, evidence, phase, stack, forward, place, module, moduleClass, operator, rule, counted, cached, driver, tensors, label] = row;
        return {
            device, kind: trace.kinds[kind] ?? "unknown", category: trace.categories[category]?.name ?? "unknown", categoryIndex: category,
            evidence: trace.evidence[evidence] ?? "", phase: trace.phases[phase] ?? "other", phaseIndex: phase,
            stackId: stack, stack: this.stacks[stack] ?? [], forwardId: forward, forward: this.stacks[forward] ?? [],
            place: this.places[place] ?? null, module: text(module), moduleClass: text(moduleClass), operator: text(operator),
            rule: text(tables.rules[rule]), counted: Boolean(counted), cached, driver: Boolean(driver),
            tensors: tensors.map((tensor) => this.tensors[tensor]).filter(Boolean), label: text(label),
        };
    }

    // Lines around a line of a file, as [number, text].
    source(file, line) {
        return Object.entries(this.sources[file] ?? {}).map(([number, text]) => [Number(number), text])
            .filter(([number]) => Math.abs(number - line) <= 3).sort((a, b) => a[0] - b[0]);
    }
}
