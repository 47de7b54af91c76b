// What the page shows, in one place. Everything that is seen follows from it and from the trace.

import { usualTab } from "./badges.js";
import { worstOf } from "./chips.js";

export const DEFAULTS = {
    trace: 0, device: 0, axis: "time", zoom: [0, 1], hover: null, pinA: null, pinB: null, tab: "who", selection: null, highlight: null,
    filter: "", full: false, shown: false, whatif: null, theme: "auto", patterns: false, scale: "auto", by: "category",
};

const same = (a, b) => a === b || (Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((value, i) => value === b[i]));

export class Store {
    constructor(state) {
        this.state = { ...DEFAULTS, ...state };
        this.listeners = new Set();
        this.changed = new Set();
        this.scheduled = false;
    }

    get() {
        return this.state;
    }

    set(patch) {
        const keys = Object.keys(patch).filter((key) => !same(this.state[key], patch[key]));
        if (!keys.length)
            return;
        this.state = { ...this.state, ...patch };
        keys.forEach((key) => this.changed.add(key));
        if (this.scheduled)
            return;
        this.scheduled = true;
        requestAnimationFrame(() => this.flush());
    }

    flush() {
        const keys = this.changed;
        this.changed = new Set();
        this.scheduled = false;
        if (keys.size)
            for (const listener of [...this.listeners])
                listener(this.state, keys);
    }

    subscribe(listener) {
        this.listeners.add(listener);
        return () => this.listeners.delete(listener);
    }
}

// ---- The address's fragment: a link shows what its sender saw ----

const SELECTIONS = ["category", "module", "class", "owner", "line", "stack", "op", "block"];

const MOSTLY = 0.6;
const READ_AT_ONCE = 1e6; // changes: of longer traces only the axis of time can be drawn before they are read

// The axis that a trace opens with: events where most of its time has none, or they would be a few columns wide.
export function usualAxis(trace) {
    const overview = trace.devices[0]?.overview;
    if (!overview?.columns || trace.changes > READ_AT_ONCE)
        return "time";
    const series = [overview.driver_bytes, ...Object.values(overview.categories)];
    let idle = 0;
    for (let i = 1; i < overview.columns; i++)
        idle += Number(series.every((bytes) => bytes[i] === bytes[i - 1]));
    return idle > MOSTLY * overview.columns ? "event" : "time";
}

// Changes are written as events: that is what `--at event:N` takes. `model` null: not yet read, they are left out.
export function toFragment(state, model) {
    const out = new URLSearchParams();
    const put = (key, value, usual) => value !== null && value !== usual && out.set(key, value);
    put("trace", state.trace, 0);
    put("device", state.device, null);
    put("axis", state.axis, model ? usualAxis(model.trace) : null);
    if (model) {
        const axis = model.axis(state.axis);
        if (state.zoom[0] !== axis.lo || state.zoom[1] !== axis.hi)
            out.set("zoom", state.zoom.map((x) => Number(x.toPrecision(12))).join("~"));
        put("a", state.pinA === null ? null : model.eventOf(state.pinA), null);
        put("b", state.pinB === null ? null : model.eventOf(state.pinB), null);
    }
    put("tab", state.tab, model ? usualTab(model.trace, model.device, model.data?.head) : null);
    if (state.selection)
        out.set("selection", `${state.selection.kind}~${state.selection.key}`);
    put("q", state.filter, "");
    put("theme", state.theme, "auto");
    put("patterns", state.patterns ? 1 : 0, 0);
    put("scale", state.scale, "auto");
    put("by", state.by, "category");
    return out.toString();
}

const number = (text) => (text !== null && text !== "" && Number.isFinite(Number(text)) ? Number(text) : null);

// What a fragment asks for; without a place, the worst that was found. Events and zoom are for applyFragment, when the trace
// is read. Nonsense is left out. `state`: how the page looks so far.
export function fromFragment(fragment, head, state = DEFAULTS) {
    const asked = new URLSearchParams(fragment.replace(/^#/, ""));
    const worst = head.diff || ["trace", "device", "tab"].some((key) => asked.has(key)) ? null : worstOf(head);
    const trace = number(asked.get("trace")) ?? worst?.trace ?? 0;
    const patch = { trace: Number.isInteger(trace) && head.traces[trace] ? trace : 0 };
    const { devices } = head.traces[patch.trace];
    const device = number(asked.get("device")) ?? worst?.device;
    patch.device = devices.some((d) => d.index === device) ? device : devices[0]?.index ?? 0;
    patch.axis = ["time", "event", "step"].includes(asked.get("axis")) ? asked.get("axis") : usualAxis(head.traces[patch.trace]);
    patch.tab = asked.get("tab") || worst?.tab || usualTab(head.traces[patch.trace], devices.find(({ index }) => index === patch.device), head);
    patch.filter = asked.get("q") || "";
    patch.theme = ["light", "dark"].includes(asked.get("theme")) ? asked.get("theme") : state.theme;
    patch.patterns = asked.has("patterns") ? asked.get("patterns") === "1" : state.patterns;
    patch.scale = ["use", "driver", "card"].includes(asked.get("scale")) ? asked.get("scale") : "auto";
    patch.by = ["module", "line", "owner"].includes(asked.get("by")) ? asked.get("by") : "category";
    return {
        patch, zoom: (asked.get("zoom") || "").split("~").map(number), a: asked.get("a") ?? worst?.at ?? null, b: number(asked.get("b")),
        selection: asked.get("selection"),
    };
}

export function applyFragment(asked, model) {
    const axis = model.axis(asked.patch.axis);
    const [lo, hi] = asked.zoom;
    const patch = { zoom: lo !== null && hi > lo ? clampZoom(axis, lo, hi) : [axis.lo, axis.hi] };
    const change = (event) => (event === null ? null : Math.max(-1, Math.min(model.changes - 1, model.changeAtEvent(event))));
    const step = /^step:(\d+)$/.exec(asked.a)?.[1]; // its largest moment
    patch.pinA = change(step ? model.steps.find((one) => one.step === Number(step))?.peak_event ?? null : number(asked.a));
    patch.pinB = change(asked.b);
    const [kind, ...key] = (asked.selection || "").split("~");
    patch.selection = SELECTIONS.includes(kind) ? { kind, key: key.join("~") } : null;
    return patch;
}

// A window wider by a factor, in which `x` stays where it is.
export function zoomAround(axis, [lo, hi], x, factor) {
    const span = Math.min(axis.hi - axis.lo, Math.max(axis.least, (hi - lo) * factor));
    const share = (x - lo) / (hi - lo);
    return clampZoom(axis, x - share * span, x + (1 - share) * span);
}

// A window within the axis, not narrower than its least.
export function clampZoom(axis, lo, hi) {
    const whole = axis.hi - axis.lo;
    const span = Math.min(whole, Math.max(Math.min(axis.least, whole), hi - lo));
    const middle = (lo + hi) / 2;
    const start = Math.min(Math.max(axis.lo, hi - lo === span ? lo : middle - span / 2), axis.hi - span);
    return [start, start + span];
}
