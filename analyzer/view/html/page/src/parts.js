// Which tabs a page has, and the number that a tab shows beside its title.

import { parts } from "./parts/index.js";

const NEEDED = {
    ranks: (head) => head.traces.length > 1 || head.traces.some(({ devices }) => devices.length > 1),
    diff: (head) => Boolean(head.diff),
};

const BADGES = {
    async leaks(model) {
        const document = await model.document("leaks");
        const device = document?.devices?.find(({ index }) => index === model.device.index);
        return (device?.leaks ?? []).filter(({ leak }) => leak).length;
    },
    async oom(model) {
        return model.trace.failed_requests.filter(({ device }) => device === model.device.index).length;
    },
};

export function partsOf(head) {
    return parts.filter(({ id }) => !NEEDED[id] || NEEDED[id](head));
}

export async function badgeOf(id, model) {
    return BADGES[id] ? BADGES[id](model) : 0;
}
