// The whole run, small; a window on it chooses what the timeline shows.

import { h as el } from "./dom.js";
import { heights, paintBands } from "./paint.js";
import { penOf } from "./parts/canvas.js";
import { clampZoom } from "./state.js";

const LEFT = 74;
const RIGHT = 14;
const EDGE = 6; // points around an edge of the window that take hold of it

export class Overview {
    constructor(root, store, colours) {
        this.root = root;
        this.pins = ["A", "B"].map((pin) => el("div", { class: `pin pin-${pin.toLowerCase()}`, "aria-hidden": "true" }));
        this.store = store;
        this.colours = colours;
        this.canvas = el("canvas", { "aria-hidden": "true" });
        this.window = el("div", { class: "window", "aria-hidden": "true" });
        root.append(this.canvas, this.window, ...this.pins);
        this.follow();
        new ResizeObserver(() => this.draw()).observe(root);
    }

    show(source) {
        this.source = source;
        this.draw();
    }

    get axis() {
        return this.source.axis(this.store.get().axis);
    }

    get span() {
        return Math.max(10, this.root.clientWidth - LEFT - RIGHT);
    }

    toX(value) {
        return LEFT + ((value - this.axis.lo) / (this.axis.hi - this.axis.lo)) * this.span;
    }

    toValue(x) {
        const share = Math.min(1, Math.max(0, (x - LEFT) / this.span));
        return this.axis.lo + share * (this.axis.hi - this.axis.lo);
    }

    draw() {
        if (!this.source || this.root.clientWidth < 40)
            return;
        const ratio = window.devicePixelRatio || 1;
        const { canvas, axis } = this;
        const pen = penOf(canvas); // first: it sizes the canvas
        const columns = Math.round(this.span);
        const picture = this.source.picture(axis, axis.lo, axis.hi, columns);
        const { used } = heights(picture, this.source);
        paintBands(pen, { left: Math.round(LEFT * ratio), top: 2, width: Math.round(this.span * ratio), height: canvas.height - 3 },
            picture, this.source, Math.max(1, used * 1.06), this.colours, { highlight: this.source.found?.most ? this.source.found.name : null });
        this.place();
    }

    place() {
        if (!this.source)
            return;
        const [lo, hi] = this.store.get().zoom;
        const from = this.toX(lo);
        const to = Math.max(from + 3, this.toX(hi));
        this.window.style.left = `${from}px`;
        this.window.style.width = `${to - from}px`;
        const whole = lo <= this.axis.lo && hi >= this.axis.hi;
        this.window.classList.toggle("whole", whole);
        const { pinA, pinB } = this.store.get();
        [pinA ?? this.source.peak, pinB].forEach((change, i) => {
            this.pins[i].hidden = change === null || change === undefined;
            this.pins[i].style.left = this.pins[i].hidden ? "" : `${this.toX(this.axis.of(change))}px`;
        });
    }

    follow() {
        let hold = null;
        const at = (event) => event.clientX - this.root.getBoundingClientRect().left;
        const gripAt = (x) => {
            const [lo, hi] = this.store.get().zoom.map((value) => this.toX(value));
            const whole = hi - lo >= this.span - 1;
            if (Math.abs(x - lo) <= EDGE && !whole)
                return "lo";
            if (Math.abs(x - hi) <= EDGE && !whole)
                return "hi";
            return x > lo && x < hi && !whole ? "window" : "new";
        };
        this.root.addEventListener("pointerdown", (event) => {
            if (event.button !== 0 || !this.source)
                return;
            const x = at(event);
            hold = { grip: gripAt(x), x, zoom: this.store.get().zoom };
            this.root.setPointerCapture(event.pointerId);
        });
        this.root.addEventListener("pointermove", (event) => {
            if (!this.source)
                return;
            const x = at(event);
            if (!hold) {
                this.root.style.cursor = { lo: "ew-resize", hi: "ew-resize", window: "grab", new: "crosshair" }[gripAt(x)];
                return;
            }
            const value = this.toValue(x);
            const [lo, hi] = hold.zoom;
            const zoom = {
                lo: [Math.min(value, hi), hi], hi: [lo, Math.max(value, lo)],
                window: [lo + value - this.toValue(hold.x), hi + value - this.toValue(hold.x)],
                new: [this.toValue(Math.min(x, hold.x)), this.toValue(Math.max(x, hold.x))],
            }[hold.grip];
            if (hold.grip !== "new" || Math.abs(x - hold.x) > 3)
                this.store.set({ zoom: clampZoom(this.axis, ...zoom) });
        });
        const leave = (event) => {
            // A click beside the window brings it there.
            if (hold && Math.abs(at(event) - hold.x) <= 3 && hold.grip === "new") {
                const [lo, hi] = hold.zoom;
                const middle = this.toValue(hold.x);
                this.store.set({ zoom: clampZoom(this.axis, middle - (hi - lo) / 2, middle + (hi - lo) / 2) });
            }
            hold = null;
        };
        this.root.addEventListener("pointerup", leave);
        this.root.addEventListener("pointercancel", () => {
            hold = null;
        });
        this.root.addEventListener("dblclick", () => this.source && this.store.set({ zoom: [this.axis.lo, this.axis.hi] }));
    }
}
