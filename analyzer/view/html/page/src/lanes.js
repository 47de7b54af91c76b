// What the timeline shows around its picture: steps and phases below, the peak, failed requests and marks above.

import { visible } from "./dom.js";
import * as format from "./format.js";
import { phaseTerm } from "./terms.js";
import { firstThat } from "./walk.js";

export const LANE = 15;
const MOST_LABELS = 200; // marks that get a name, if there is room

export function drawLanes(timeline, context, state) {
    const { area, colours } = timeline;
    const top = area.top + area.height + 24;
    context.textBaseline = "middle";
    context.textAlign = "right";
    context.fillStyle = colours.css("--muted");
    ["step", "phase", ...(timeline.source.requests.lanes ? ["request"] : [])].forEach((word, row) => context.fillText(word, area.left - 8, top + row * (LANE + 1) + LANE / 2));
    context.save();
    context.beginPath();
    context.rect(area.left, area.top, area.width, timeline.height);
    context.clip();
    drawSteps(timeline, context, state, top);
    drawPhases(timeline, context, state, top + LANE + 1);
    drawRequests(timeline, context, top + 2 * (LANE + 1));
    context.restore();
}

// A box of a lane from one place to another, with the first of its texts that has room in what is seen of it.
function putBox({ area, colours }, context, from, to, y, colour, ...texts) {
    context.fillStyle = colours.css(colour);
    context.fillRect(from, y, Math.max(1, to - from), LANE);
    const left = Math.max(from, area.left), right = Math.min(to, area.left + area.width);
    context.textAlign = "center";
    context.fillStyle = colours.css("--fg");
    context.fillText(texts.find((text) => context.measureText(text).width + 4 < right - left) ?? "", (left + right) / 2, y + LANE / 2 + 1);
}

function drawRequests(timeline, context, y) {
    const { area, source } = timeline, drawn = [];
    const at = (change) => timeline.toX(timeline.axis.of(change));
    source.requests.all.forEach(({ first, last, lane }, i) => {
        const from = at(first), to = Math.max(from + 1, at(last));
        if (to < area.left || from > area.left + area.width || to < drawn[lane] + 1)
            return;
        drawn[lane] = to;
        putBox(timeline, context, from, to, y + lane * (LANE + 1), i % 2 ? "--lane-a" : "--lane-b", format.count(i + 1));
    });
}

function drawSteps(timeline, context, state, y) {
    const { area, source, colours } = timeline;
    const [lo, hi] = state.zoom;
    const edges = source.steps.length;
    const first = Math.max(0, firstThat(edges, (i) => timeline.axis.stepBegin(i) > lo) - 1);
    let drawn = -Infinity;
    let marked = -Infinity;
    let inWindow = 0;
    while (first + inWindow < edges && timeline.axis.stepBegin(first + inWindow) < hi)
        inWindow++;
    for (let i = first; i < first + inWindow; i++) {
        const step = source.steps[i];
        const from = timeline.toX(timeline.axis.stepBegin(i));
        const to = i + 1 < edges ? timeline.toX(timeline.axis.stepBegin(i + 1)) : timeline.toX(timeline.axis.hi);
        const outlier = step.large || step.slow;
        if (to < drawn + 1 && !(outlier && from > marked + 2))
            continue;
        if (outlier)
            marked = from;
        putBox(timeline, context, from, to, y, outlier ? "--notice-bg" : step.step % 2 ? "--lane-a" : "--lane-b",
            step.step ? `${step.step}${step.large ? " ▲" : ""}${step.slow ? " ◷" : ""}` : "init");
        if (to - from >= 14 && i && step.step) {
            context.strokeStyle = colours.css("--line");
            context.globalAlpha = 0.6;
            line(context, Math.round(from) + 0.5, area.top, Math.round(from) + 0.5, y + LANE);
            context.globalAlpha = 1;
        }
        drawn = Math.max(drawn, to);
    }
}

// Runs of one phase, as far as points can show them.
function drawPhases(timeline, context, state, y) {
    const { area, source, colours } = timeline;
    const { phase } = source.phases;
    const phaseAt = (x) => phase[timeline.axis.runAt(timeline.toValue(x))];
    if (timeline.axis.runAt(state.zoom[1]) - timeline.axis.runAt(state.zoom[0]) > area.width / 3) {
        putBox(timeline, context, area.left, area.left + area.width, y, "--lane-a");
        context.fillStyle = colours.css("--muted");
        context.fillText("zoom in to see phases", area.left + area.width / 2, y + LANE / 2 + 1);
        return;
    }
    let from = area.left;
    let name = phaseAt(from);
    const put = (to) => {
        const colour = colours.css(`--phase-${name}`) ? `--phase-${name}` : "--lane-a";
        if (name)
            putBox(timeline, context, from, to, y, colour, name, name.slice(0, 3), name[0]);
    };
    for (let x = area.left + 1; x <= area.left + area.width; x++) {
        const here = phaseAt(x);
        if (here !== name) {
            put(x);
            from = x;
            name = here;
        }
    }
    put(area.left + area.width);
}

// Peak, refusals and marks above the picture; a label only where none is yet.
export function drawMarks(timeline, context) {
    const { area, source, colours } = timeline;
    const taken = [[], []];
    timeline.marks = [];
    const put = (value, sign, text, colour, depth, term) => {
        const x = timeline.toX(value);
        if (x < area.left - 0.5 || x > area.left + area.width + 0.5)
            return;
        context.strokeStyle = context.fillStyle = colours.css(colour);
        context.globalAlpha = 0.7;
        line(context, Math.round(x) + 0.5, area.top - 4, Math.round(x) + 0.5, depth);
        context.globalAlpha = 1;
        if (!sign)
            return;
        const full = text ? `${sign} ${text}` : sign;
        for (const [row, label] of [[1, full], [0, full], [1, sign], [0, sign]]) {
            const wide = context.measureText(label).width;
            const right = x + wide + 4 < area.left + area.width;
            const from = right ? x - 5 : x - wide + 5;
            if (taken[row].some(([a, b]) => from < b + 8 && from + wide > a - 8))
                continue;
            taken[row].push([from, from + wide]);
            timeline.marks.push({ from, to: from + wide, y: area.top - 10 - (1 - row) * 15, term });
            context.textAlign = "left";
            context.textBaseline = "middle";
            context.fillText(label, from, area.top - 10 - (1 - row) * 15);
            return;
        }
    };
    const peak = source.state(source.peak);
    const bottom = area.top + area.height;
    if (source.changes)
        put(timeline.axis.of(source.peak), "◆", `peak ${format.bytes(peak.used_bytes)}`, "--fg", bottom - (peak.used_bytes / timeline.scale) * area.height, "peak");
    for (const refusal of source.trace.failed_requests.filter((r) => r.device === source.device.index))
        put(placeOf(timeline, refusal), "✖", `out of memory: ${format.bytes(refusal.requested_bytes)} requested`, "--alarm", bottom, "out of memory");
    const [first, behind] = marksInWindow(timeline);
    const many = behind - first > MOST_LABELS;
    for (let i = first; i < behind; i += Math.max(1, Math.floor((behind - first) / area.width))) {
        const mark = source.marks[i];
        put(placeOf(timeline, mark), many ? "" : "▾", many ? "" : shorten(visible(mark.name), 28), "--muted", area.top + 4, "mark");
    }
}

const laneAt = ({ area }, y) => Math.floor((y - area.top - area.height - 24) / (LANE + 1));

// The word or mark that is drawn at a place, in the table of terms.
export function termAt(timeline, x, y) {
    const { area, source, axis } = timeline;
    if (y < area.top)
        return timeline.marks?.find((mark) => x >= mark.from - 3 && x <= mark.to + 3 && Math.abs(y - mark.y) < 8)?.term;
    const lane = laneAt(timeline, y);
    return lane > 1 && lane < 2 + source.requests.lanes ? "request" : ["step", x >= area.left ? phaseTerm(source.phases.phase[axis.runAt(timeline.toValue(x))]) : undefined][lane];
}

/** What is known of the request under the pointer, in a sentence and a space; "": there is none. */
export function requestAt(timeline, x, y) {
    const { source } = timeline, lane = laneAt(timeline, y) - 2, change = timeline.changeAt(x);
    const number = source.requests.all.findIndex((one) => one.lane === lane && one.first <= change && change <= one.last);
    if (number < 0)
        return "";
    const { first, last } = source.requests.all[number], used = (at) => source.state(at).used_bytes;
    return `Request ${format.count(number + 1)}: ${format.duration(source.timeOf(last) - source.timeOf(first))}, at most ${format.bytes(source.largestOf(first, last + 1).value)} in use, at its end ${format.change(used(last) - used(first - 1))}. `;
}

// The same of a moment: its mark, else its phase.
export function termOf(source, change) {
    const { trace, device } = source, here = ({ event }) => source.changeAtEvent(event) === change;
    return change === source.peak ? "peak"
        : trace.failed_requests.some((request) => request.device === device.index && here(request)) ? "out of memory"
        : source.marks.length < MOST_LABELS && source.marks.some(here) ? "mark" : phaseTerm(source.phaseOf(change));
}

// Marks are in the order of time: numbers of the first that is seen, and of the first behind.
function marksInWindow(timeline) {
    const { marks } = timeline.source;
    const [lo, hi] = timeline.store.get().zoom;
    const from = (value) => firstThat(marks.length, (i) => placeOf(timeline, marks[i]) >= value);
    return [from(lo), from(hi)];
}

function placeOf(timeline, { t_ns, event }) {
    if (timeline.axis.name === "time")
        return t_ns;
    return timeline.axis.name === "event" ? event : timeline.axis.of(timeline.source.changeAtEvent(event));
}

export function line(context, x1, y1, x2, y2) {
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
}

function shorten(text, length) {
    const signs = [...text];
    return signs.length > length ? `${signs.slice(0, length - 1).join("")}…` : text;
}
