// Where a page has not each event, as of a long trace: what was alive between two moments that were looked at is not
// all known, so nothing is drawn there. The program in the page never takes a change in a gap for a state.

import { above } from "./walk.js";

// The changes that lie in gaps: those numbered from first[i] to before end[i].
export function gapChanges(gaps, events) {
    const changeOf = (event) => above(events, event - 1);
    return { first: Uint32Array.from(gaps?.first_event ?? [], changeOf), end: Uint32Array.from(gaps?.end_event ?? [], changeOf) };
}

export class Gaps {
    constructor(trace, changes) {
        const { first_event = [], end_event = [], omitted = [], t_ns = [], end_ns = [] } = trace.gaps ?? {};
        this.first_event = first_event;
        this.end_event = end_event;
        this.omitted = omitted;
        this.t_ns = t_ns;
        this.end_ns = end_ns;
        this.changes = changes;
        this.count = omitted.length;
    }

    // The gap that a change lies in, -1 = none.
    at(change) {
        const i = above(this.changes.first, change) - 1;
        return i >= 0 && change < this.changes.end[i] ? i : -1;
    }

    // The nearest change, forward (by = 1) or back (-1), that lies in no gap.
    beside(change, by) {
        const i = this.at(change);
        return i < 0 ? change : by > 0 ? this.changes.end[i] : this.changes.first[i] - 1;
    }

    // Events that are left out of the gaps that meet lo..hi of an axis, and how many these are.
    among({ from, to }, lo, hi) {
        let events = 0;
        let count = 0;
        for (let i = above(to, lo); i < this.count && from[i] < hi; i++) {
            events += this.omitted[i];
            count++;
        }
        return { events, count };
    }
}

// Lines from the lower left to the upper right, on points of a canvas.
export const hatched = (x, y) => (x + y) % 8 < 1;

export function hatch(context, left, top, width, height, colour) {
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    context.strokeStyle = colour;
    context.lineWidth = 1;
    context.beginPath();
    for (let x = Math.floor((left - height) / 8) * 8; x < left + width; x += 8) {
        context.moveTo(x, top + height);
        context.lineTo(x + height, top);
    }
    context.stroke();
    context.restore();
}
