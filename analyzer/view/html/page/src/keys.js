// What keys do, as a table; the help shows the same table.

import { zoomAround } from "./state.js";
import { AXES } from "./axis.js";

export const KEYS = [
    { keys: ["ArrowLeft", "ArrowRight"], shown: "← →", about: "previous / next change", run: (page, event) => page.move((event.key === "ArrowRight" ? 1 : -1) * (event.altKey ? 100 : 1)) },
    { keys: ["ArrowLeft", "ArrowRight"], shift: true, shown: "Shift ← →", about: "previous / next step", run: (page, event) => page.moveStep(event.key === "ArrowRight" ? 1 : -1) },
    { keys: ["Home", "End"], shown: "Home End", about: "first or last change", run: (page, event) => page.pin(event.key === "Home" ? 0 : page.model.changes - 1) },
    { keys: ["["], shown: "[", about: "zoom out", run: (page) => zoom(page, 1.6) },
    { keys: ["]"], shown: "]", about: "zoom in", run: (page) => zoom(page, 1 / 1.6) },
    { keys: ["0"], shown: "0", about: "show the whole run", run: (page) => page.whole() },
    { keys: ["p"], shown: "p", about: "go to the peak", run: (page) => page.toPeak() },
    { keys: ["b"], shown: "b", about: "pin this moment as B to compare (again: clear B)", run: (page) => page.toggleB() },
    { keys: ["x"], shown: "x", about: "axis: time, events, steps", run: (page) => page.setAxis(AXES[(AXES.indexOf(page.store.get().axis) + 1) % AXES.length]) },
    { keys: ["/"], shown: "/", about: "search", run: (page) => page.focusSearch() },
    { keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"], shown: "1 – 9", about: "open a tab", run: (page, event) => page.tabs.go(Number(event.key) - 1) },
    { keys: ["f"], shown: "f", about: "Blocks or Map over the whole window (Esc: leave)", run: (page) => page.room.full() },
    { keys: ["?"], shown: "?", about: "this help", run: (page) => page.help() },
];

export const MOUSE = [
    { shown: "Wheel, pinch", about: "zoom at the pointer" },
    { shown: "Drag, Shift + wheel", about: "move along the run" },
    { shown: "Shift + drag", about: "zoom to the selection" },
    { shown: "Click", about: "pin this moment as A: the numbers below are for A" },
    { shown: "Shift + click", about: "pin as B: numbers show the difference" },
    { shown: "Double click", about: "zoom to the step under the pointer (again: the whole run)" },
];

// In and out around the pin, where it is seen; else around the middle.
function zoom(page, factor) {
    const axis = page.model.axis(page.store.get().axis);
    const { zoom: [lo, hi] } = page.store.get();
    const pin = axis.of(page.pinned());
    page.store.set({ zoom: zoomAround(axis, [lo, hi], pin >= lo && pin <= hi ? pin : (lo + hi) / 2, factor) });
}

const WRITES = /^(INPUT|TEXTAREA|SELECT)$/;

export function listen(page) {
    document.addEventListener("keydown", (event) => {
        if (event.defaultPrevented || event.ctrlKey || event.metaKey || !page.model)
            return;
        const { target } = event;
        if (event.key === "Escape")
            page.room.full(false);
        if (target instanceof HTMLElement) {
            if (event.key === "Escape" && target.id === "search")
                target.blur();
            if (WRITES.test(target.tagName) || target.closest("dialog"))
                return;
            // A table, a list or a tree below moves by arrows itself.
            if (/^(Arrow|Home|End)/.test(event.key) && target !== document.body && !target.closest("#timeline"))
                return;
        }
        const found = KEYS.find(({ keys, shift }) => keys.includes(event.key) && (!event.key.startsWith("Arrow") || Boolean(shift) === event.shiftKey));
        if (!found)
            return;
        event.preventDefault();
        found.run(page, event);
    });
}
