// What was found in the traces of the page, worst first: the chips under the title, and where the page opens.

import { byId, clear, h as el, visible } from "./dom.js";
import * as format from "./format.js";

/** The process of a trace in the job that the traces are, or undefined. */
export const processOf = (head, trace) => head.job?.processes.find(({ file }) => file === trace.file);

/** "rank 3", else the name of the file */
export const traceName = (head, index) => visible(processOf(head, head.traces[index])?.label ?? head.traces[index].name);

/** Processes that stand out, each with the reason: [{process, device, bytes, text}…] */
export function outliersOf(head) {
    const outliers = (head.job?.runs ?? []).flatMap(({ groups }) => groups.flatMap((group) => group.outliers));
    return outliers.map((odd) => ({ process: head.job.processes[odd.process], device: odd.device, bytes: Math.abs(odd.difference_bytes), text: reasonOf(head, odd) }));
}

// "+56 MiB inputs at train.py:11": a part is named if it differs in the direction of the whole, and by a tenth of it.
function reasonOf({ traces }, odd) {
    const [category, line] = [odd.categories[0], odd.lines[0]].map((one) =>
        (one?.name && one.name !== "unknown" && one.difference_bytes / odd.difference_bytes >= 0.1 ? one : null));
    const label = category && (traces[0].categories.find(({ name }) => name === category.name)?.label ?? category.name);
    const together = category && line && line.category === category.name && line.difference_bytes / category.difference_bytes >= 0.5;
    const told = category ?? odd;
    return `${format.change(told.difference_bytes)}${label ? ` ${label}` : ""}${together ? ` at ${visible(format.shortPlace(line.name))}` : ""}`;
}

const WORTH = 0.05; // of the GPU: free pieces of less deserve no chip

// The largest of one kind for each device; `bytes` orders them, `at`: an event, "step:N", or null = the peak.
const KINDS = [
    { tab: "oom", tone: "alarm", of({ failed_requests: requests, oom_cause: cause }, device) {
        const last = requests.filter((request) => request.device === device.index).pop();
        return last && { bytes: last.requested_bytes, at: last.event, text: `Out of memory: ${format.bytes(last.requested_bytes)} requested${cause ? ` · ${visible(cause.split(": ")[0])}` : ""}` };
    } },
    { tab: "leaks", tone: "alarm", of(trace, device) {
        const leak = device.leak_list?.find((one) => one.leak);
        return leak && { bytes: leak.bytes_per_step, at: `step:${leak.last_step}`, text: `Leak: ${format.bytes(leak.bytes_per_step)} per step · ${visible(leak.verdict)}` };
    } },
    { tab: "frag", tone: "notice", of: (trace, device) => device.frag_advice?.length && device.hole_bytes >= WORTH * device.total_bytes &&
        { bytes: device.hole_bytes, text: `Fragmentation: ${format.bytes(device.hole_bytes)} reserved but free` } },
    { tab: "ranks", tone: "notice", of(trace, device, head) {
        const odd = outliersOf(head).find((one) => one.process.file === trace.file && one.device === device.index);
        return odd && { bytes: odd.bytes, text: `Outlier: ${odd.text}` };
    } },
    { tab: "advice", tone: "", of(trace, device) {
        const most = device.advice?.find(({ kind }) => kind !== "leak");
        return most && { bytes: most.bytes, text: `−${format.bytes(most.bytes)}: ${visible(most.what)}` };
    } },
];

/** [{tab, tone, text, title, trace, device, at, count}…]: the worst of each kind; of out of memory, the first process. */
export function findingsOf(head) {
    const first = head.job?.failures?.[0] && head.job.processes[head.job.failures[0].process].file;
    return KINDS.flatMap(({ tab, tone, of }) => {
        const all = head.traces.flatMap((trace, index) => trace.devices.map((device) => {
            const found = of(trace, device, head);
            return found ? { at: null, ...found, tab, tone, trace: index, device: device.index, first: tab === "oom" && trace.file === first } : null;
        })).filter(Boolean);
        all.sort((a, b) => Number(b.first) - Number(a.first) || b.bytes - a.bytes);
        return all.length ? [{ ...all[0], count: all.length }] : [];
    });
}

/** Where a page opens that nobody asked for a place. */
export const worstOf = (head) => findingsOf(head).find(({ tone }) => tone) ?? null;

/** A link in the page to a finding. */
export function showFindings(head) {
    const many = head.traces.length > 1;
    const chips = findingsOf(head).map((found) => {
        const { devices } = head.traces[found.trace];
        const where = [many ? traceName(head, found.trace) : "", devices.length > 1 ? `GPU ${found.device}` : ""].filter(Boolean).join(", ");
        const text = `${found.text}${where ? ` · ${where}` : ""}${found.count > 1 ? `, also in ${format.count(found.count - 1)} more` : ""}`;
        const link = new URLSearchParams({ trace: String(found.trace), device: String(found.device), tab: found.tab });
        if (found.at !== null)
            link.set("a", String(found.at));
        return el("a", { class: `chip ${found.tone}`, href: `#${link}`, title: text }, text);
    });
    clear(byId("findings"), ...chips);
    byId("findings").hidden = !chips.length;
}
