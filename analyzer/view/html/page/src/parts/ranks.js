// Several traces beside each other: ranks of one job, or A and B.
import { h, name, clear } from "./dom.js";
import { createTable } from "./table.js";
import { emptyState } from "./findings.js";

const APART = new Set(["cached", "context", "host_pinned"]);

/** What is in use in each column of a device's overview. */
export function usedOf(overview) {
  const used = new Array(overview.t_ns.length).fill(0);
  for (const [category, values] of Object.entries(overview.categories))
    if (!APART.has(category)) values.forEach((value, i) => { used[i] += value; });
  return used;
}

function sparkline(values, most) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 160 24");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "vp-spark");
  svg.setAttribute("aria-hidden", "true");
  const step = 160 / Math.max(1, values.length);
  path.setAttribute("d", `M0 24${values.map((value, i) => { const y = (24 - (23 * value) / most).toFixed(1); return `L${(i * step).toFixed(1)} ${y}L${((i + 1) * step).toFixed(1)} ${y}`; }).join("")}L160 24Z`);
  svg.append(path);
  return svg;
}

function create(root, context) {
  const { store, model } = context, traces = model.traces || [];
  if (traces.length < 2) {
    root.append(emptyState("One trace: ranks appear when a page is made of several."));
    return { update() {}, destroy() { clear(root); } };
  }
  const rows = traces.flatMap((trace, index) => trace.devices.map((device) => {
    const used = device.overview ? usedOf(device.overview) : [];
    return { key: `${index}/${device.index}`, index, trace, device, used, peak: used.length ? Math.max(...used) : null, driver: device.overview ? Math.max(0, ...device.overview.driver_bytes) : null };
  }));
  const most = Math.max(1, ...rows.map((row) => row.peak || 0)), low = Math.min(...rows.map((row) => row.peak ?? Infinity));
  const table = createTable({ context, caption: "Traces; all small pictures have one scale. Choose one to show it", sort: null, key: (row) => row.key,
    choose(row) {
      store.set({ trace: row.index, device: row.device.index, pinA: null, pinB: null, selection: null });
      context.announce(`Showing ${row.trace.name}, GPU ${row.device.index}`);
    }, columns: [
      { id: "name", title: "Trace", kind: "name", value: (row) => row.trace.name },
      { id: "device", title: "GPU", kind: "text", value: (row) => `${row.device.index} ${row.device.name || ""}` },
      { id: "peak", title: "Most in use", kind: "bytes", value: (row) => row.peak }, 
      { id: "over", title: "above the least", kind: "change", value: (row) => (row.peak === null ? null : row.peak - low) },
      { id: "driver", title: "Most given by the driver", kind: "bytes", value: (row) => row.driver },
      { id: "steps", title: "Steps", kind: "count", value: (row) => row.trace.steps }, { id: "time", title: "Time", kind: "duration", value: (row) => row.trace.duration_ns },
      { id: "oom", title: "Out of memory", kind: "count", value: (row) => row.trace.refusals.filter((one) => one.device === row.device.index).length },
      { id: "state", title: "Recording", kind: "text", value: (row) => (row.trace.complete ? row.trace.losses?.[0] || "complete" : "incomplete") },
      { id: "spark", title: "Over time", kind: "text", value: () => null, cell: (row) => sparkline(row.used, most) }] });
  table.set(rows);
  root.append(table.element);
  const update = (state) => table.select(`${state.trace}/${state.device}`);
  update(store.get());
  return { update, destroy() { clear(root); } };
}

export const part = { id: "ranks", title: "Ranks", create };
