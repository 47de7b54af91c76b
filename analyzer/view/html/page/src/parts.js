// Which tabs a page has.

import { parts } from "./parts/index.js";

const NEEDED = {
    ranks: (head) => head.traces.length > 1 || head.traces.some(({ devices }) => devices.length > 1),
    diff: (head) => Boolean(head.diff),
};

/** Tabs that say all by themselves: the timeline is a strip above them. */
export const STRIPS = new Set(["oom", "advice", "card", "steps", "source"]);
/** Tabs that can have the whole window. */
export const FULL = new Set(["blocks", "map"]);

export function partsOf(head) {
    return parts.filter(({ id }) => !NEEDED[id] || NEEDED[id](head));
}
