// How much was found: the number that a tab shows beside its title, and the tab that a page opens with.

const BADGES = {
    leaks: (trace, device) => device.leaks,
    oom: (trace, device) => trace.failed_requests.filter((request) => request.device === device.index).length,
};

export function badgeOf(id, trace, device) {
    return device && BADGES[id] ? BADGES[id](trace, device) : 0;
}

/** Where a page opens that nobody asked for a tab: at the comparison that it was made for, else at the worst that was found. */
export function usualTab(trace, device, head) {
    return head?.diff ? "diff" : ["oom", "leaks"].find((id) => badgeOf(id, trace, device)) ?? "who";
}
