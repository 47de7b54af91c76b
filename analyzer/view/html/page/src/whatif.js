// What advice would have saved: the curve that is left of the picture, and its peak. The analyzer predicts what each advice
// saves from one event to the next (table savings); the page only adds up.

import { above, Largest } from "./walk.js";
import * as format from "./format.js";
import { greatest } from "./greatest.js";
import { line } from "./lanes.js";
import { made } from "./made.js";

/** Numbers of advice, in groups that share no memory: what groups save adds up. Within a group several may free the same
 * bytes, so at each moment only the advice that saves most counts. `advice`: [{same: [number…]}…]. */
export function groupsOf(ticked, advice) {
    const groups = [];
    for (const one of ticked) {
        const touched = groups.filter((group) => group.some((other) => advice[one].same.includes(other)));
        groups.push(touched.flat().concat(one));
        for (const group of touched)
            groups.splice(groups.indexOf(group), 1);
    }
    return groups.map((group) => group.sort((a, b) => a - b));
}

// The changes from which on each advice saves other bytes, and these.
function rowsOfAdvice({ names, device, columns }) {
    const { savings } = names, advice = new Map();
    for (let i = 0; i < (savings?.rows ?? 0); i++)
        if (savings.device[i] === device.index)
            made(advice, savings.advice[i], () => []).push([above(columns.event, savings.event[i] - 1), savings.bytes[i]]);
    return advice;
}

/** The device's changes in runs of the same saving: {starts, saved, peaks, peak}, where `peaks` are the largest states left. */
export function runsOf(model, groups) {
    const advice = rowsOfAdvice(model), now = new Map(), saved = [], starts = [];
    const rows = groups.flat().flatMap((one) => (advice.get(one) ?? []).map(([change, bytes]) => ({ change, one, bytes })));
    rows.sort((a, b) => a.change - b.change);
    for (const { change, one, bytes } of [{ change: 0, one: -1, bytes: 0 }, ...rows]) {
        now.set(one, bytes);
        if (starts[starts.length - 1] !== change)
            starts.push(change);
        saved[starts.length - 1] = groups.reduce((sum, group) =>
            sum + greatest(group.map((other) => now.get(other) ?? 0)), 0);
    }
    const peaks = starts.map((from, i) => {
        const until = starts[i + 1] ?? model.changes;
        return until > from ? model.largestOf(from, until).value - saved[i] : -Infinity;
    });
    const largest = new Largest(peaks);
    return { starts, saved, peaks, largest, peak: peaks[largest.among(0, peaks.length)] };
}

/** What is left of the largest state `most` of the changes low..high-1; without any change the state of low-1 goes on. Of runs
 * that only begin or end here the largest state may lie elsewhere. */
export function leftOf({ starts, saved, peaks, largest }, low, high, most) {
    const first = Math.max(0, above(starts, high > low ? low : low - 1) - 1), last = Math.max(first, above(starts, high - 1) - 1);
    if (first === last)
        return most - saved[first];
    const within = largest.among(first + 1, last);
    const ends = [first, last].map((run) => Math.min(peaks[run], most - saved[run]));
    return greatest([...ends, within < 0 ? -Infinity : peaks[within]]);
}

/** For each column of the timeline's picture: what is used, and what of it is left. `visit(column, used, left)` */
export function eachLeft({ picture, source, axis, store }, runs, visit) {
    const [lo, hi] = store.get().zoom;
    let low = axis.changeAt(lo) + 1;
    const { width, vectors } = picture.whole ?? picture; // by categories, whatever bands are shown
    for (let column = 0; column < picture.count; column++) {
        const high = Math.max(low, axis.changeAt(lo + ((column + 1) * (hi - lo)) / picture.count) + 1), from = low;
        low = high;
        if (picture.gap[column])
            continue;
        const vector = vectors.subarray(column * width, (column + 1) * width);
        const used = source.stacked.reduce((sum, c) => sum + vector[c], 0), most = source.measure(vector);
        visit(column, used, used - most + leftOf(runs, from, high, most));
    }
}

/** Over the picture: pale what would not be there, the curve that is left, and a line at its peak. */
export function drawWhatIf(timeline, context, whatif) {
    const { area, picture, source, colours } = timeline, runs = source.whatif(whatif.groups), wide = area.width / picture.count;
    const y = (bytes) => timeline.toY(Math.max(0, bytes)), curve = new Path2D();
    context.fillStyle = colours.css("--bg");
    context.globalAlpha = 0.72;
    eachLeft(timeline, runs, (column, used, left) => {
        const x = area.left + column * wide;
        context.fillRect(x, y(used), wide + 0.25, Math.max(0, y(left) - y(used)));
        curve[column && !picture.gap[column - 1] ? "lineTo" : "moveTo"](x, y(left));
        curve.lineTo(x + wide, y(left));
    });
    context.globalAlpha = 1;
    for (const [colour, width] of [["--bg", 4], ["--fg", 1.75]]) {
        context.strokeStyle = colours.css(colour);
        context.lineWidth = width;
        context.stroke(curve);
    }
    context.lineWidth = 1;
    const peak = whatif.trial ? source.measure(source.walker.to(source.peak)) - whatif.trial.saved : runs.peak;
    context.setLineDash([5, 4]);
    line(context, area.left, y(peak), area.left + area.width, y(peak));
    context.setLineDash([]);
    context.textAlign = "left";
    context.textBaseline = "bottom";
    timeline.outlined(context, whatIfText(runs, whatif, source), area.left + 8, Math.max(area.top + 16, y(peak) - 4));
}

/** What a trial of a dry run measured that made all changes of these advices and no other: {saved, peak} of the run as it was; null: none. */
export function measured(numbers, advice, trials) {
    const words = (list) => [...new Set(list)].sort().join(","), plain = trials?.find(({ changes }) => !changes);
    const wanted = words(numbers.map((one) => advice[one].change)), changes = wanted.split(",");
    const all = advice.flatMap(({ change }, i) => (change && changes.includes(change) ? [i] : []));
    const trial = plain && wanted && words(all) === words(numbers) && trials.find(({ changes }) => words(changes.split(",")) === wanted);
    return trial ? { saved: plain.bytes - trial.bytes, peak: plain.bytes } : null;
}

/** "predicted peak 1.21 GiB, −494 MiB" */
export function whatIfText(runs, { groups, trial }, model) {
    const most = model.measure(model.walker.to(model.peak)), bound = groups.some((group) => group.length > 1) ? "at most " : "";
    return trial ? `measured peak ${format.bytes(most - trial.saved)}, ${format.change(-trial.saved)}`
        : `predicted peak ${bound}${format.bytes(runs.peak)}, ${format.change(runs.peak - most)}`;
}
