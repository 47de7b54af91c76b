// Several traces beside each other: ranks of one job, or A and B.
import { APART } from "../model.js";
import { column, createTable } from "./table.js";
import { emptyState } from "./findings.js";
import { greatest } from "../greatest.js";

/** What is in use in each column of a device's overview. */
export function usedOf(overview) {
    const used = new Array(overview.t_ns.length).fill(0);
    for (const [category, values] of Object.entries(overview.categories))
        if (!APART.includes(category))
            values.forEach((value, i) => { used[i] += value; });
    return used;
}

/**
 * The most that the driver gave, without the context: that is what the card had in use when the process came to it, with what
 * other ranks had.
 */
export function mostGiven({ driver_bytes: driver, categories }) {
    return greatest(driver.map((bytes, i) => bytes - (categories.context?.[i] || 0)), 0);
}

function sparkline(values, most) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"),
          path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    svg.setAttribute("viewBox", "0 0 160 24");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("class", "vp-spark");
    svg.setAttribute("aria-hidden", "true");
    const step = 160 / Math.max(1, values.length);
    path.setAttribute("d",
        `M0 24${
            values
                .map((value, i) => {
                    const y = (24 - (23 * value) / most).toFixed(1);
                    return `L${(i * step).toFixed(1)} ${y}L${((i + 1) * step).toFixed(1)} ${y}`;
                })
                .join("")}L160 24Z`);
    svg.append(path);
    return svg;
}

function create(root, context) {
    const { store, model } = context, traces = model.traces || [];
    const rows = traces.flatMap((trace, index) => trace.devices.map((device) => {
        const used = device.overview ? usedOf(device.overview) : [];
        return {
            key: `${index}/${device.index}`,
            index,
            trace,
            device,
            used,
            peak: used.length ? greatest(used) : null,
            driver: device.overview ? mostGiven(device.overview) : null
        };
    }));
    if (rows.length < 2) {
        root.append(emptyState("Only one trace of one GPU: nothing to compare."));
        return {};
    }
    const most = greatest(rows.map((row) => row.peak || 0), 1),
          low = -greatest(rows.map((row) => -(row.peak ?? Infinity)));
    const table = createTable({
        context,
        caption: "Traces; all charts use the same scale. Choose one to show it",
        sort: null,
        key: (row) => row.key,
        choose(row) {
            store.set({ trace: row.index, device: row.device.index, pinA: null, pinB: null, selection: null });
            context.announce(`Showing ${row.trace.name}, GPU ${row.device.index}`);
        },
        columns: [
            column("name", "Trace", "name", (row) => row.trace.name),
            column("device", "GPU", "text", (row) => `${row.device.index} ${row.device.name || ""}`),
            column("peak", "Peak in use", "bytes", (row) => row.peak),
            column("over", "Above lowest", "change", (row) => (row.peak === null ? null : row.peak - low)),
            column("driver", "Driver peak, without context", "bytes", (row) => row.driver),
            column("steps", "Steps", "count", (row) => row.trace.steps),
            column("time", "Time", "duration", (row) => row.trace.duration_ns),
            column("oom", "Out of memory", "count",
                (row) => row.trace.failed_requests.filter((one) => one.device === row.device.index).length),
            column("state", "Recording", "text",
                (row) => (row.trace.complete ? row.trace.losses?.[0] || "complete" : "incomplete")),
            column("spark", "Over time", "text", () => null, { cell: (row) => sparkline(row.used, most) })
        ]
    });
    table.set(rows);
    root.append(table.element);
    const update = (state) => table.select(`${state.trace}/${state.device}`);
    return { update };
}

export const part = {
    id: "ranks",
    title: "Ranks",
    create
};
