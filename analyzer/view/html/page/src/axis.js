// What the horizontal axis counts: time, events, or steps (each of equal width).
//
// of(change): where it is; gaps: where gaps begin and end; changeAt(x): the last one before x, or of time the last until x; -1 = none.
// runAt(x): the phase's run; stepBegin(i): where the i-th step begins.

import { above } from "./walk.js";
import * as format from "./format.js";

export const AXES = ["time", "event", "step"];

function timeTicks(lo, hi, most) {
    const found = format.ticks(lo, hi, most);
    const step = found.length > 1 ? found[1] - found[0] : 1e9;
    return found.map((x) => ({ x, text: hi < 1e9 ? `${Number((x / 1e6).toFixed(6))} ms` : format.seconds(x, step) }));
}

export function timeAxis(model) {
    return {
        name: "time", title: "time", lo: 0, hi: Math.max(1, model.trace.duration_ns), least: 1000,
        of: (change) => model.timeOf(change),
        changeAt: (x) => model.changeAtTime(x),
        gaps: { from: model.gaps.t_ns, to: model.gaps.end_ns },
        runAt: (x) => above(model.phases.t_ns, x) - 1,
        stepBegin: (i) => model.steps[i].t_ns,
        ticks: timeTicks,
    };
}

export function eventAxis(model) {
    return {
        name: "event", title: "events", lo: 0, hi: Math.max(1, model.trace.events), least: 8,
        of: (change) => model.eventOf(change),
        changeAt: (x) => model.changeAtEvent(Math.ceil(x) - 1),
        gaps: { from: model.gaps.first_event, to: model.gaps.end_event },
        runAt: (x) => model.phaseRun(Math.floor(x)),
        stepBegin: (i) => model.steps[i].first_event,
        ticks: (lo, hi, most) => format.ticks(lo, hi, most, 1).map((x) => ({ x, text: format.count(x) })),
    };
}

// A step lies between its number and the next, by the share of its events.
export function stepAxis(model) {
    const { steps } = model;
    const first = steps.length ? steps[0].step : 0;
    const placeOf = (event) => {
        const i = Math.max(0, above(model.stepFirstEvents, event) - 1);
        const step = steps[i];
        return step ? first + i + Math.min(1, Math.max(0, (event - step.first_event) / (step.last_event - step.first_event + 1))) : first;
    };
    const eventAt = (x) => {
        const i = Math.min(steps.length - 1, Math.max(0, Math.floor(x) - first));
        const step = steps[i];
        const share = Math.min(1, Math.max(0, x - first - i));
        return step.first_event + share * (step.last_event - step.first_event + 1);
    };
    return {
        name: "step", title: "steps", lo: first, hi: first + Math.max(1, steps.length), least: 1e-4,
        of: (change) => placeOf(model.eventOf(change)),
        gaps: { from: model.gaps.first_event.map(placeOf), to: model.gaps.end_event.map(placeOf) },
        changeAt: (x) => (steps.length ? model.changeAtEvent(Math.ceil(eventAt(x) - 1e-9) - 1) : -1),
        runAt: (x) => model.phaseRun(Math.floor(eventAt(x))),
        stepBegin: (i) => first + i,
        ticks(lo, hi, most) {
            return format.ticks(lo, hi, most, 1).filter((x) => x < first + steps.length).map((x) => ({ x, text: x ? format.count(x) : "init" }));
        },
    };
}
