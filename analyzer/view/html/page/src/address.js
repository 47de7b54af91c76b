// The address: a link shows what its sender saw, and Back returns to what was seen before.

import { toFragment } from "./state.js";

const SETTLED_MS = 400;
const ENTRIES = ["tab", "zoom", "pinA", "pinB", "axis"]; // what Back goes through; the rest is written into the entry

export class Address {
    constructor() {
        this.followed = true; // what is shown came from the address: it is written over, not added
        this.pressed = false;
        addEventListener("pointerdown", () => {
            this.pressed = true;
        }, true);
        for (const end of ["pointerup", "pointercancel"])
            addEventListener(end, () => {
                this.pressed = false;
            }, true);
    }

    // A change of tab is an entry at once; pins and zoom when they rest.
    note(state, model, keys) {
        this.adds = !this.followed && (this.adds || ENTRIES.some((key) => keys.has(key)));
        this.followed = false;
        clearTimeout(this.timer);
        if (keys.has("tab") && this.adds)
            this.write(state, model);
        else
            this.timer = setTimeout(() => this.pressed ? this.note(state, model, new Set()) : this.write(state, model), SETTLED_MS);
    }

    write(state, model) {
        clearTimeout(this.timer);
        const fragment = `#${toFragment(state, model)}`;
        try {
            if (fragment !== location.hash)
                history[this.adds ? "pushState" : "replaceState"](null, "", fragment);
        } catch { /* some browsers allow it only so often, or not from a disk: the page works without */ }
        this.adds = false;
    }
}
