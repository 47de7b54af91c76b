// Steps, and the outliers among them.
import { h } from "../dom.js";
import { showInTimeline } from "./view.js";
import { column, createTable } from "./table.js";
import { card, emptyState, factList } from "./findings.js";
import { greatest } from "../greatest.js";

/** What to do where there are none. */
export const MARKS = "vramtrace.step() in each iteration (in C: VRAMTRACE_STEP()) marks them.";

function outliers(step) {
    return [step.large ? "peak" : "", step.slow ? "time" : ""].filter(Boolean).join(", ");
}

export function create(root, context) {
    const { model, format } = context, { steps, device } = model;
    if (device.served?.length) // "KV cache  at most 3 MiB"
        root.append(card({ heading: "Inference", figure: "" }, factList(device.served.map((text) => text.split(/ {2,}/)))));
    if (!steps.length) {
        root.append(emptyState(`No steps found: no modules, backward passes or optimizer. ${MARKS}`));
        return {};
    }
    const real = steps.filter((step) => step.step > 0), many = real.filter(outliers);
    const before = new Map(steps.map((step, i) => [step, i ? steps[i - 1].end_used_bytes : null]));
    const open = (step) => showInTimeline(context, { event: step.peak_event, first: step.first_event, last: step.last_event });
    const medianPeak = device.median_peak_bytes, medianTime = device.median_duration_ns;
    root.append(
        h("p", { class: "vp-heading" }, `${format.count(real.length)} ${real.length === 1 ? "step" : "steps"}. `,
            medianPeak ? `Median peak ${format.bytes(medianPeak)}, median time ${format.duration(medianTime)}. ${
                             many.length ? `${format.count(many.length)} ${many.length === 1 ? "outlier" : "outliers"}.` : "No outliers."}`
                                         : "Too few to find outliers."));
    const columns = [
        column("step", "Step", "count", (step) => step.step,
            { cell: (step) => (step.step ? format.count(step.step) : "before") }),
        column("peak", "Peak", "bytes", (step) => step.peak_used_bytes),
        medianPeak ? column("over", "Over median", "change", (step) => step.peak_used_bytes - medianPeak) : null,
        column("end", "At end", "bytes", (step) => step.end_used_bytes),
        column("change", "Grew", "change",
            (step) => (before.get(step) === null ? null : step.end_used_bytes - before.get(step))),
        column("time", "Time", "duration", (step) => step.duration_ns),
        column("out", "Outlier by", "text", outliers),
        column("events", "Events", "count", (step) => step.last_event - step.first_event + 1, { sum: true })
    ].filter(Boolean);
    const table = createTable({
        context,
        caption: "Steps; choose one to see it in the timeline",
        columns,
        sort: ["step", false],
        key: (step) => String(step.step),
        choose(step) {
            table.select(String(step.step));
            open(step);
        }
    });
    table.set(steps);
    root.append(bars(context, real, open), table.element);
    return {};
}

/* A bar for each step's peak, as far as there is room for them; the table has all. */
function bars(context, steps, choose) {
    const { format } = context, most = greatest(steps.map((step) => step.peak_used_bytes), 1),
                   group = Math.ceil(steps.length / 400);
    const columns = [];
    for (let i = 0; i < steps.length; i += group)
        columns.push(steps.slice(i, i + group).reduce((a, b) => (b.peak_used_bytes > a.peak_used_bytes ? b : a)));
    return h("div", { class: "vp-stepbars", "aria-hidden": "true" }, columns.map((step) => h("div", {
        class: outliers(step) ? "vp-out" : null,
        style: `height:${(100 * step.peak_used_bytes) / most}%`,
        title: `${group > 1 ? `largest of ${group}: ` : ""}step ${step.step}: ${format.bytes(step.peak_used_bytes)}, ${
            format.duration(step.duration_ns)}${outliers(step) ? `, outlier by ${outliers(step)}` : ""}`,
        onclick: () => choose(step)
    })));
}
