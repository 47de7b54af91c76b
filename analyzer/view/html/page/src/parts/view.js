// What the parts read of the core: the store's fields and a few facts that several parts ask for. All that
// the parts assume of the state is here.
//
// state: pinA, pinB: change or null; axis and zoom: [lo, hi] on model.axis(axis); selection: {kind, key} or null; highlight: a category or null.

import { APART } from "../model.js";
import { toFragment } from "../state.js";

export const NEVER = 0xffffffff;

/** What has no name, by each way to group. */
export const UNNAMED = { category: "no category", module: "no module", kind: "no module", owner: "no owner known", line: "no line known",
    stack: "no stack recorded", op: "no operator" };

/** The change that tables are about: the pinned one, else the peak. */
export function instantOf(state, model) {
    return state.pinA ?? model.peak;
}

/** Two changes are compared by what the later has more: {sign, title}, or null if there is only one. */
export const differenceOf = (first, second) =>
    (second === null ? null : second < first ? { sign: -1, title: "A − B" } : { sign: 1, title: "B − A" });

export function categoryLabel(model, category) {
    return model.categories.find((one) => one.name === category)?.label ?? category.replace(/_/g, " ");
}
/** Bytes of a category, by name, in a state of the model. */
export function bytesOf(model, state, category) {
    return state.categories[model.categories.findIndex((one) => one.name === category)] ?? 0;
}

/** The allocation that is selected, or null; a selection may come from a link to another trace. */
export function chosenBlock(state, model) {
    const key = state.selection?.kind === "block" ? Number(state.selection.key) : -1;
    return Number.isInteger(key) && key >= 0 && key < model.begin.length ? key : null;
}

export function selectBlock(store, allocation) {
    store.set({ selection: { kind: "block", key: String(allocation) } });
}

/** Whether an allocation of this class counts in what is in use: all categories but the cache, the context
 * and page-locked host memory. */
export function isUsed(klass) {
    return Boolean(klass.counted) && !APART.includes(klass.category);
}

/** "at 1.50 s, step 12, backward", "at the peak (1.50 s, step 12, backward)" */
export function momentText(context, change) {
    const state = context.model.state(change), { format } = context;
    const when = [
        format.duration(state.t_ns), state.step ? `step ${format.count(state.step)}` : "", state.phase
    ].filter(Boolean).join(", ");
    return change === context.model.peak ? `at the peak (${when})` : `at ${when}`;
}

/** {line: text} of a file, or null. */
export function sourcesOf(names, file) {
    return Object.hasOwn(names.sources, file) ? names.sources[file] : null;
}

/** The words of a search. */
export const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

/** The frames that people look for first: Python's, else all. */
export function tellingFrames(frames) {
    const python = frames.filter(isPython);
    return python.length ? python : frames;
}
export function isPython(frame) {
    return frame.kind === "python";
}
export function frameName(frame) {
    if (frame.name)
        return frame.name;
    const at = frame.file ? `${frame.file.split("/").slice(-2).join("/")}${frame.line ? `:${frame.line}` : ""} ` : "";
    const where = !at && frame.module ? ` (${frame.module.split("/").pop()})` : "";
    return `${at}${frame.function || "?"}${where}`;
}

/** Moves the timeline to what a finding is about: an instant, or the events from `first` to `last`. */
export function showInTimeline(context, {event, first, last}) {
    const { model, store } = context;
    const patch = {};
    if (event !== undefined && event !== null)
        patch.pinA = Math.max(0, model.changeAtEvent(event));
    if (first !== undefined && first !== null) {
        const axis = model.axis(store.get().axis), around = (last - first) * 0.05;
        const lo = Math.max(axis.lo, axis.of(model.changeAtEvent(Math.max(0, first - around)))),
              hi = Math.min(axis.hi, axis.of(model.changeAtEvent(last + around)));
        patch.zoom = hi - lo > axis.least ? [lo, hi] : [axis.lo, axis.hi];
    }
    store.set({...patch, shown: true });
    context.announce(patch.pinA !== undefined ? `Instant ${momentText(context, patch.pinA)}`
                                              : `Timeline from event ${first} to ${last}`);
}

/** Shows a run at its peak under "Who", as a link would: the browser's own way leads back. `asked`: trace, device, selection, filter */
export function openRun(store, asked) {
    location.hash = toFragment({ ...store.get(), ...asked, tab: "who", pinA: null, pinB: null }, null);
}

/** Of a document's devices the one that the model is about. */
export function deviceOf(document, model) {
    return (document.devices || []).find((device) => device.index === model.device.index) || null;
}
