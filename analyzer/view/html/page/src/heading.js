// The page's words: what was traced, on which device, the verdict, and a moment.

import { byId, clear, h as el, visible } from "./dom.js";
import { showFindings, traceName } from "./chips.js";
import * as format from "./format.js";
import { differenceOf } from "./parts/view.js";

export function showHeading(head, trace, traceNumber, device) {
    const command = head.traces.length > 1 || !head.title ? trace.command || trace.name : head.title;
    document.title = `${visible(shortPaths(command))} · vramtrace`;
    clear(byId("title"), el("bdi", { title: visible(command) }, visible(shortPaths(command))));
    const fill = (select, items, chosen) => {
        clear(select, ...items.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
        select.hidden = items.length < 2;
        select.value = String(chosen);
    };
    fill(byId("trace"), head.traces.map((t, i) => [i, traceName(head, i)]), traceNumber);
    fill(byId("device"), trace.devices.map((d) => [d.index, deviceName(d)]), device?.index);
    clear(byId("facts"), ...[
        trace.simulated ? `simulated: ${visible(trace.simulated)}` : null,
        !device ? "no GPU" : trace.devices.length < 2 ? deviceName(device) : null, trace.steps ? `${format.count(trace.steps)} step${trace.steps === 1 ? "" : "s"}` : null, `ran ${format.duration(trace.duration_ns)}`,
        `${format.count(trace.events)} events`,
    ].filter(Boolean).map((text) => el("span", {}, text)));
    showFindings(head);
    clear(byId("verdict"), head.traces.length > 1 ? el("p", {}, el("strong", {}, traceName(head, traceNumber))) : null,
        ...verdictOf(trace, device).map((text) => el("p", {}, visible(text))));
    const losses = [...trace.losses, ...(head.left_out ?? []).map((path) => `${path} belongs to this job but could not be read.`)];
    clear(byId("losses"), ...losses.map((text) => el("p", {}, visible(text))));
    byId("losses").hidden = !losses.length;
}

// A moment in words, and what B differs by: what a screen reader says.
export function spoken(model, state) {
    const now = model.state(state.pinA ?? model.peak);
    const largest = model.stacked.filter((c) => now.categories[c]).sort((a, b) => now.categories[b] - now.categories[a]).slice(0, 3)
        .map((c) => `${model.categories[c].label} ${format.bytes(now.categories[c])}`);
    const before = state.pinB === null ? null : model.state(state.pinB), difference = differenceOf(now.change, state.pinB);
    return `${format.time(now.t_ns)}, ${now.step ? `step ${now.step}` : "before step 1"}, ${now.phase}: ${format.bytes(now.used_bytes)} in use${now.change === model.peak ? ", the peak" : ""}. ${largest.join(", ")}.${
        before ? ` B: ${format.bytes(before.used_bytes)}, ${`${difference.title}: ${format.change(difference.sign * (before.used_bytes - now.used_bytes))}`}.` : ""}`;
}

// Of several devices each has a heading; what is said of the shown one comes first.
function verdictOf(trace, device) {
    const common = [];
    const own = [];
    const others = [];
    let to = common;
    for (const text of trace.verdict) {
        const named = trace.devices.find((one) => text === deviceName(one));
        if (named)
            to = named === device ? own : others;
        if (!named || to === others)
            to.push(text);
    }
    return [...common, ...own, ...others];
}

// "python torch/train.py": the program's name, and the last two parts of other paths.
function shortPaths(command) {
    return command.replace(/^\S*\/(?=[^\s/])/, "").replace(/(^|\s)\S*\/(?=[^\s/]+\/[^\s/]+)/g, "$1");
}

function deviceName(device) {
    return `GPU ${device.index}${device.name ? ` ${visible(device.name)}` : ""}${device.total_bytes ? ` (${format.bytes(device.total_bytes)})` : ""}`;
}
