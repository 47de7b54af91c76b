// How much of the window timeline and parts have: the line between them can be moved, the timeline is a strip above tabs that do not need
// it, and one part can have the whole window.

import { byId, onKeys } from "./dom.js";
import { parts } from "./parts.js";

const LEAST = 24; // percent of the window; below half of it the timeline becomes the strip
const USUAL = 46;

const partOf = ({ tab }) => parts.find(({ id }) => id === tab) ?? parts[0];

export class Room {
    constructor(store) {
        this.store = store;
        this.share = USUAL;
        this.strips = { strip: true, chart: false }; // for tabs that begin with a strip, and for the others
        const handle = byId("splitter");
        handle.addEventListener("pointerdown", (event) => {
            handle.setPointerCapture(event.pointerId);
            event.preventDefault();
        });
        handle.addEventListener("pointermove", (event) => {
            if (handle.hasPointerCapture(event.pointerId))
                this.set((100 * (event.clientY - byId("stage").getBoundingClientRect().top)) / window.innerHeight);
        });
        const step = (by) => () => this.set(this.isStrip() ? (by > 0 ? LEAST : 0) : this.share + by, by < 0);
        onKeys(handle, () => ({ ArrowUp: step(-2), ArrowDown: step(2) }));
        handle.addEventListener("dblclick", () => this.set(USUAL));
        byId("full").addEventListener("click", () => this.full());
        addEventListener("fullscreenchange", () => document.fullscreenElement || store.set({ full: false }));
        this.update(store.get(), new Set(["tab"]));
    }

    isStrip() {
        return this.strips[this.kind] && !this.shown;
    }

    // `closes`: a step of the keyboard below the least is enough for the strip.
    set(percent, closes = false) {
        this.strips[this.kind] = percent < (closes ? LEAST : LEAST / 2);
        this.shown = false;
        if (!this.strips[this.kind])
            this.share = Math.min(75, Math.max(LEAST, percent));
        this.apply();
    }

    update(state, keys) {
        if (!["tab", "full", "shown", "whatif"].some((key) => keys.has(key)))
            return;
        const { strip, full } = partOf(state);
        if (keys.has("tab"))
            Object.assign(state, { shown: keys.has("shown") && state.shown, full: Boolean(state.full && full) });
        this.kind = strip ? "strip" : "chart";
        this.shown = (state.shown || state.whatif) && !state.full; // something in the timeline is meant
        byId("full").hidden = !full;
        byId("full").setAttribute("aria-pressed", String(state.full));
        this.apply();
    }

    apply() {
        const { full } = this.store.get();
        document.documentElement.style.setProperty("--split", `${this.share}vh`);
        document.body.classList.toggle("strip", this.isStrip() || full);
        document.body.classList.toggle("full", full);
        byId("splitter").setAttribute("aria-valuenow", String(this.isStrip() ? 0 : Math.round(this.share)));
    }

    // The window, and the screen where the browser allows it.
    full(on = !this.store.get().full) {
        if (on === this.store.get().full || !partOf(this.store.get()).full)
            return;
        this.store.set({ full: on });
        const done = on ? document.documentElement.requestFullscreen?.() : document.fullscreenElement && document.exitFullscreen();
        done?.catch?.(() => {}); // the window is enough
    }
}
