// How much of the window timeline and parts have: the splitter, the strip above tabs that do not need the timeline, and
// one part over the whole window.

import { byId } from "./dom.js";
import { parts } from "./parts.js";
import { Splitter } from "./splitter.js";

const partOf = ({ tab }) => parts.find(({ id }) => id === tab) ?? parts[0];

export class Room {
    constructor(store) {
        this.store = store;
        this.splitter = new Splitter(byId("splitter"), document.documentElement);
        byId("full").addEventListener("click", () => this.full());
        addEventListener("fullscreenchange", () => document.fullscreenElement || store.set({ full: false }));
        this.update(store.get(), new Set(["tab"]));
    }

    update(state, keys) {
        if (!["tab", "full", "shown", "whatif"].some((key) => keys.has(key)))
            return;
        const { strip, full } = partOf(state);
        if (keys.has("tab"))
            Object.assign(state, { shown: keys.has("shown") && state.shown, full: Boolean(state.full && full) });
        this.splitter.use({ strip, full: state.full, shown: state.shown || Boolean(state.whatif) });
        byId("full").hidden = !full;
        byId("full").setAttribute("aria-pressed", String(state.full));
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
