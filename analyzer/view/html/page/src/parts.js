// Which tabs a page has.

import { parts } from "./parts/index.js";

const NEEDED = {
    ranks: (head) => head.traces.length > 1 || head.traces.some(({ devices }) => devices.length > 1),
    diff: (head) => Boolean(head.diff),
};

export function partsOf(head) {
    return parts.filter(({ id }) => !NEEDED[id] || NEEDED[id](head));
}
