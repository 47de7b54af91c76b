// The line between timeline and parts, which can be moved. A tab that does not need the timeline begins with a strip of it.

const LEAST = 24; // percent of the window; below half of it the timeline becomes the strip
const USUAL = 46;

export class Splitter {
    constructor(handle, root) {
        this.handle = handle;
        this.root = root;
        this.share = USUAL;
        this.strips = { strip: true, chart: false }; // for tabs that begin with a strip, and for the others
        this.kind = "chart";
        handle.addEventListener("pointerdown", (event) => {
            handle.setPointerCapture(event.pointerId);
            event.preventDefault();
        });
        handle.addEventListener("pointermove", (event) => {
            if (handle.hasPointerCapture(event.pointerId)) {
                const top = document.getElementById("stage").getBoundingClientRect().top;
                this.set((100 * (event.clientY - top)) / window.innerHeight);
            }
        });
        handle.addEventListener("keydown", (event) => {
            const by = { ArrowUp: -2, ArrowDown: 2 }[event.key];
            if (by) {
                event.preventDefault();
                this.set(this.isStrip() ? (by > 0 ? LEAST : 0) : this.share + by, by < 0);
            }
        });
        handle.addEventListener("dblclick", () => this.set(USUAL));
        this.apply();
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

    // `strip`: how the tab begins; `full`: a part has the whole window; `shown`: something in the timeline is meant.
    use({ strip, full, shown }) {
        this.kind = strip ? "strip" : "chart";
        this.shown = shown && !full;
        this.full = full;
        this.apply();
    }

    apply() {
        this.root.style.setProperty("--split", `${this.share}vh`);
        document.body.classList.toggle("strip", this.isStrip() || Boolean(this.full));
        document.body.classList.toggle("full", Boolean(this.full));
        this.handle.setAttribute("aria-valuenow", String(this.isStrip() ? 0 : Math.round(this.share)));
    }
}
