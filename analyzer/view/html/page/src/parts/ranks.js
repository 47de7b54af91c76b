// The processes of a job, or several traces or GPUs, beside each other: what each had in use over time, who stands out, who leaks.
import { APART } from "../model.js";
import { h, name, slider, visible } from "../dom.js";
import { outliersOf, processOf, traceName } from "../chips.js";
import { createCanvas, fitted } from "./canvas.js";
import { column, createTable, smallTable } from "./table.js";
import { emptyState } from "./findings.js";
import { greatest } from "../greatest.js";
import { above } from "../walk.js";

/** What is in use in each column of a device's overview. */
export function usedOf(overview) {
    const used = new Array(overview.t_ns.length).fill(0);
    for (const [category, values] of Object.entries(overview.categories))
        if (!APART.includes(category))
            values.forEach((value, i) => { used[i] += value; });
    return used;
}

/**
 * The most that the driver gave, without the context: that is what the GPU had in use when the process came to it, with what
 * other ranks had.
 */
export function mostGiven({ driver_bytes: driver, categories }) {
    return greatest(driver.map((bytes, i) => bytes - (categories.context?.[i] || 0)), 0);
}

/** A row for each device of each trace: processes of a job by run and rank, on the job's clock. */
export function rowsOf(head, format) {
    const order = new Map((head.job?.processes ?? []).map(({ file }, i) => [file, i])), outliers = outliersOf(head);
    const rows = head.traces.flatMap((trace, index) => trace.devices.map((device) => {
        const used = device.overview ? usedOf(device.overview) : [], process = processOf(head, trace);
        const own = process?.devices.find((one) => one.index === device.index), gpu = own && head.job.gpus[own.gpu];
        const refusals = trace.failed_requests.filter((one) => one.device === device.index), leak = device.leak_list?.find((one) => one.leak);
        const odd = outliers.find((one) => one.process === process && one.device === device.index);
        return {
            key: `${index}/${device.index}`, index, trace, device, used, odd, refusals, name: traceName(head, index),
            gpu: `${gpu?.number ?? device.index} ${device.name || ""}${head.job?.nodes.length > 1 ? ` on ${process?.host ?? "?"}` : ""}`,
            start: process?.start_ns ?? 0,
            state: process && !trace.complete ? process.outcome : trace.complete ? trace.losses?.[0] || "complete" : "incomplete",
            peak: used.length ? greatest(used) : null,
            driver: device.overview ? mostGiven(device.overview) : null,
            leak: leak?.bytes_per_step ?? null,
            what: [odd?.text, leak && `leak: ${format.bytes(leak.bytes_per_step)} per step`, refusals.length && "out of memory"]
                .filter(Boolean).join(" · ")
        };
    }));
    return rows.sort((a, b) => (order.get(a.trace.file) ?? 0) - (order.get(b.trace.file) ?? 0));
}

const LEFT = 96, LABEL = 13, MOST = 22;

/** A row for each rank, darker where it had more; outliers are outlined, each with its reason. */
function strip(context, rows, most, room, open) {
    const { format, colours } = context;
    const end = greatest(rows.map((row) => row.start + row.trace.duration_ns), 1);
    const devices = new Set(rows.map((row) => row.device.index)).size > 1;
    const titleOf = (row) => `${row.name}${devices ? ` GPU ${row.device.index}` : ""}`;
    let at = 0, current = null;
    const hint = h("p", { class: "vp-hover", "aria-hidden": "true" });
    const canvas = createCanvas({ "aria-hidden": "true" }, draw);
    const element = h("div", { class: "vp-heatstrip", role: "slider", tabindex: "0", "aria-label": "Processes over time; Enter opens one", "aria-orientation": "vertical",
        "aria-valuemin": 1, "aria-valuemax": rows.length, style: `height:${Math.min(Math.max(120, room), Math.max(48, rows.length * MOST))}px` }, canvas.element);
    const high = () => canvas.height / rows.length;
    const right = () => (canvas.width > 800 ? 330 : 0);
    const toX = (ns) => Math.round(LEFT + (ns / end) * (canvas.width - LEFT - right()));

    function drawRow(pen, row, i) {
        const y = i * high(), times = row.device.overview?.t_ns ?? [], gap = high() >= 6 ? 1 : 0;
        const from = toX(row.start), to = toX(row.start + row.trace.duration_ns);
        pen.fillStyle = colours.css("--accent");
        row.used.forEach((bytes, c) => {
            const x = toX(row.start + times[c]), next = c + 1 < times.length ? toX(row.start + times[c + 1]) : to;
            pen.globalAlpha = 0.08 + (0.92 * bytes) / most;
            pen.fillRect(x, y, next - x, high() - gap);
        });
        pen.globalAlpha = 1;
        pen.lineWidth = 2;
        pen.strokeStyle = pen.fillStyle = colours.css("--alarm");
        if (row.odd)
            pen.strokeRect(from, y + 1, to - from, Math.max(2, high() - 2 - gap));
        for (const refusal of row.refusals.slice(-20))
            pen.fillText("✖", toX(row.start + refusal.t_ns) - 4, y + high() / 2);
        if (row.key !== current && !(i === at && document.activeElement === element))
            return;
        pen.strokeStyle = pen.fillStyle = colours.css("--fg");
        if (high() >= 8)
            pen.strokeRect(1, y, canvas.width - right() - 2, high() - gap);
        else
            pen.fillRect(LEFT - 10, y - 1, 8, high() + 2);
    }

    /* Names where there is room; those of rows that something was found in come first. */
    function labels(pen) {
        const taken = { left: [], right: [] };
        const put = (side, row, i, text, x) => {
            const y = Math.min(canvas.height - LABEL / 2, Math.max(LABEL / 2, (i + 0.5) * high()));
            if (taken[side].some((other) => Math.abs(other - y) < LABEL))
                return;
            taken[side].push(y);
            pen.fillStyle = colours.css(row.what ? "--alarm" : "--muted");
            pen.fillText(fitted(pen, text, side === "left" ? LEFT - 10 : right() - 10), x, y);
        };
        const found = rows.map((row, i) => [row, i]).sort(([a], [b]) => Number(Boolean(b.what)) - Number(Boolean(a.what)));
        for (const [row, i] of found) {
            put("left", row, i, titleOf(row), 4);
            if (row.what && right())
                put("right", row, i, high() < LABEL ? `${row.name}: ${row.what}` : row.what, canvas.width - right() + 8);
        }
    }

    function draw(pen) {
        pen.font = "12px system-ui, sans-serif";
        pen.textBaseline = "middle";
        rows.forEach((row, i) => drawRow(pen, row, i));
        labels(pen);
    }

    function tellOf(row, ns) {
        const c = ns === null ? -1 : above(row.device.overview?.t_ns ?? [], ns - row.start) - 1;
        return `${titleOf(row)}: ${c < 0 ? "" : `${format.bytes(row.used[c])} in use at ${format.duration(ns)}, `}peak ${format.bytes(row.peak ?? 0)}${row.what ? ` · ${row.what}` : ""}`;
    }

    const move = slider(element, 1, rows.length, (number) => {
        at = number - 1;
        canvas.redraw();
        const text = tellOf(rows[at], null);
        hint.textContent = document.activeElement === element ? text : hint.textContent;
        return text;
    }, () => open(rows[at]));
    const rowAt = (event) => Math.min(rows.length - 1, Math.max(0, Math.floor((event.offsetY / canvas.height) * rows.length)));
    element.addEventListener("pointermove", (event) => {
        const ns = ((event.offsetX - LEFT) / (canvas.width - LEFT - right())) * end;
        hint.textContent = tellOf(rows[rowAt(event)], ns >= 0 && ns <= end ? ns : null);
    });
    element.addEventListener("click", (event) => open(rows[rowAt(event)]));
    element.addEventListener("focus", () => move(at + 1));
    element.addEventListener("blur", () => canvas.redraw());
    return {
        parts: [element, hint, h("p", { class: "vp-muted vp-aside" }, `${format.duration(end)} from left to right; full colour: ${format.bytes(most)} in use. Outlined: stands out from processes with the same work.`)],
        show(key) {
            current = key;
            move(rows.findIndex((row) => row.key === key) + 1);
        },
        focus: () => element.focus(),
        destroy: canvas.destroy
    };
}

/* Which processes shared a GPU, at the moment when they together held the most of it. */
function gpuTable(context, job) {
    const label = (one) => job.processes[one.process].label;
    const who = (gpu) => [
        ...gpu.processes.map((one) => `${label(one)} ${context.format.bytes(one.bytes)}`),
        ...gpu.contexts_without_memory.map((one) => `${label(one)}: only a CUDA context`)
    ].join(", ");
    return smallTable({
        context,
        caption: "Driver memory by GPU, when its processes together held the most",
        sort: null,
        columns: [
            column("gpu", "GPU", "text", (gpu) => `${gpu.number} ${gpu.name}${job.nodes.length > 1 ? ` on ${job.nodes[gpu.node].host}` : ""}`),
            column("most", "Most", "bytes", (gpu) => gpu.most_bytes),
            column("share", "of GPU", "share", (gpu) => (gpu.total_bytes ? gpu.most_bytes / gpu.total_bytes : null)),
            column("at", "At", "duration", (gpu) => gpu.most_t_ns),
            column("contexts", "Contexts, other", "bytes", (gpu) => gpu.context_bytes),
            column("who", "Processes", "text", who, { cell: (gpu) => name(who(gpu), "vp-wrap") })
        ]
    }, job.gpus);
}

let keyed = false; // a rank was opened from the strip, which is made anew and keeps the focus

export function create(root, context) {
    const { store, model } = context, { head } = model.data, rows = rowsOf(head, context.format);
    if (rows.length < 2) {
        root.append(emptyState("Only one trace of one GPU: nothing to compare."));
        return {};
    }
    const most = greatest(rows.map((row) => row.peak || 0), 1),
          low = -greatest(rows.map((row) => -(row.peak ?? Infinity)));
    const choose = (row) => {
        store.set({ trace: row.index, device: row.device.index, pinA: null, pinB: null, selection: null });
        context.announce(`Showing ${row.name}, GPU ${row.device.index}`);
    };
    const heat = strip(context, rows, most, root.clientHeight - 84, (row) => {
        keyed = row.key !== `${store.get().trace}/${store.get().device}`;
        choose(row);
    });
    const table = createTable({
        context,
        caption: "Choose one to show it",
        sort: null,
        key: (row) => row.key,
        choose,
        columns: [
            column("name", "Process", "name", (row) => row.name),
            column("device", "GPU", "text", (row) => row.gpu),
            column("peak", "Peak in use", "bytes", (row) => row.peak),
            column("over", "Above lowest", "change", (row) => (row.peak === null ? null : row.peak - low)),
            column("odd", "Outlier", "text", (row) => row.odd?.text),
            column("driver", "Driver peak, without context", "bytes", (row) => row.driver),
            column("leak", "Leak per step", "bytes", (row) => row.leak),
            column("oom", "Out of memory", "count", (row) => row.refusals.length),
            column("steps", "Steps", "count", (row) => row.trace.steps),
            column("time", "Time", "duration", (row) => row.trace.duration_ns),
            column("state", "Recording", "text", (row) => row.state)
        ]
    });
    table.set(rows);
    root.append(...heat.parts, ...(head.job?.said ?? []).map((text) => h("p", { class: "vp-said" }, visible(text))), table.element);
    if (head.job?.gpus.length)
        root.append(gpuTable(context, head.job));
    if (keyed)
        heat.focus();
    keyed = false;
    return {
        update(state) {
            table.select(`${state.trace}/${state.device}`);
            heat.show(`${state.trace}/${state.device}`);
        },
        destroy: heat.destroy
    };
}
