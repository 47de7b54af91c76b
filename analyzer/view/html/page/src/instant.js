// The table beside the timeline: one moment in numbers, and what is different from the second pin.

import { clear, h as el, roving, swatch, visible } from "./dom.js";
import * as format from "./format.js";
import { explained, phaseTerm } from "./terms.js";

// Rows stay where they are, so that one keeps the focus.
const keep = (element, rows) => rows.some((row, i) => row !== element.children[i]) || rows.length !== element.children.length ? element.replaceChildren(...rows) : null;

const differenceOf = (later, a) => (later < 0 ? `${a} − B` : `B − ${a}`);

// What a moment is, where it is one that the page goes to by itself.
function nameOf(model, change) {
    const failed = model.trace.failed_requests.some((one) => one.device === model.device.index && model.changeAtEvent(one.event) === change);
    const largest = model.steps.find((step) => step.step && model.changeAtEvent(step.peak_event) === change);
    return change === model.peak ? " · peak" : failed ? " · before the failed request" : largest ? ` · peak of step ${format.count(largest.step)}` : "";
}

export class Instant {
    constructor(root, store, actions) {
        this.store = store;
        this.title = el("h2");
        this.step = el("span");
        this.phase = el("span", { tabindex: "0" });
        this.event = el("span");
        this.where = el("p", { class: "where" }, this.step, this.phase, this.event);
        this.head = el("tr");
        this.body = el("tbody");
        this.foot = el("tfoot");
        this.table = el("table", { class: "instant-table" }, el("caption", { class: "hidden" }, "Memory by category at this moment"), el("thead", {}, this.head), this.body, this.foot);
        this.between = el("p", { class: "between" });
        this.found = el("p", { class: "between found" });
        this.pinB = el("button", { type: "button", onclick: () => actions.pinB() }, "Pin as B");
        this.clearB = el("button", { type: "button", onclick: () => actions.clearB() }, "Clear B");
        this.peak = el("button", { type: "button", onclick: () => actions.peak() }, "Go to peak");
        root.append(this.title, this.where, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Memory by category" }, this.found, this.table, this.between),
            el("div", { class: "buttons" }, this.peak, this.pinB, this.clearB));
        this.rows = new Map();
        roving(root, () => [...root.querySelectorAll("[data-term]")]);
    }

    // The model, or the same by other bands than categories.
    show(source) {
        this.source = source;
        this.rows.clear();
        this.update(this.store.get());
    }

    row(name, label) {
        if (!this.rows.has(name)) {
            const cells = { bytes: el("td"), other: el("td") };
            const row = el("tr", { class: name ? "category" : "sum" }, el("th", { scope: "row", title: label, ...explained(label), tabindex: "-1" }, name ? swatch(name) : null, label), cells.bytes, cells.other);
            if (name) {
                row.addEventListener("pointerenter", () => this.store.set({ highlight: name }));
                row.addEventListener("pointerleave", () => this.store.set({ highlight: null }));
            }
            this.rows.set(name || label, { row, ...cells });
        }
        return this.rows.get(name || label);
    }

    put(name, label, bytes, whole, before, later) {
        const cells = this.row(name, label);
        cells.bytes.textContent = format.bytes(bytes);
        cells.bytes.title = format.exact(bytes);
        const compared = before !== null, more = later * (before - bytes);
        cells.other.textContent = compared ? (more ? format.change(more) : "=") : whole ? format.percent(bytes, whole) : "";
        cells.other.title = compared ? format.exact(more) : "";
        cells.other.className = !compared || !more ? "" : more > 0 ? "more" : "less";
        return cells.row;
    }

    update(state) {
        const model = this.source;
        if (!model)
            return;
        const pinned = state.pinA ?? model.peak;
        const change = state.hover ?? pinned;
        const now = model.state(change);
        const bands = model.bandsAt(change).slice();
        const b = state.pinB === null ? null : model.state(state.pinB);
        const bandsB = b && model.bandsAt(state.pinB).slice();
        const later = b && b.change < change ? -1 : 1; // what the later moment has more
        this.title.textContent = `${state.hover !== null ? "At" : "A:"} ${format.time(now.t_ns, this.resolution(state))}${nameOf(model, change)}`;
        this.step.textContent = `${now.step ? `step ${format.count(now.step)}` : "before step 1"}, `;
        this.phase.textContent = now.phase;
        this.phase.dataset.term = phaseTerm(now.phase);
        this.event.textContent = ` · event ${format.count(now.event)}${now.partial ? " · not examined: more was alive than is shown" : ""}`;
        clear(this.head, el("th", { scope: "col" }, model.by), el("th", { scope: "col" }, "bytes"), el("th", { scope: "col" }, b ? differenceOf(later, state.hover !== null ? "here" : "A") : "of in use"));
        keep(this.body, [...model.bands].reverse().filter(({ ever }) => ever)
            .map(({ name, label, index }) => this.put(name, label, bands[index], now.used_bytes, bandsB && bandsB[index], later)));
        for (const row of this.body.children)
            row.classList.toggle("lit", state.highlight !== null && row === this.rows.get(state.highlight)?.row);
        const put = (label, bytes, before) => this.put("", label, bytes, 0, before ?? null, later);
        const apart = (...names) => model.categories.flatMap(({ name, label }, c) => (names.includes(name) && model.ever(c)
            ? [this.put(name, label, now.categories[c], 0, b && b.categories[c], later)] : []));
        keep(this.foot, [put("in use", now.used_bytes, b && b.used_bytes), ...apart("cached", "context"),
            put("from driver", now.driver_bytes, b && b.driver_bytes),
            model.device.total_bytes ? put("GPU size", model.device.total_bytes, null) : null, ...apart("host_pinned")].filter(Boolean));
        this.showFound(model.found, bands[0], model.gaps.count ? "at least " : "");
        this.showBetween(state, model, change, b);
        this.peak.hidden = false;
        this.clearB.hidden = state.pinB === null;
        this.pinB.hidden = state.pinB !== null;
        this.peak.disabled = state.pinA === null || state.pinA === model.peak;
    }

    // What the search finds, here and where most of it is.
    showFound(found, here, least) {
        this.found.textContent = !found ? "" : !found.most ? `${found.label} is in no name.`
            : `${found.label}: ${format.bytes(here)} here, ${least}${format.bytes(found.most)} at its peak (${format.time(this.source.timeOf(found.at))}).`;
        this.found.title = found ? `${format.exact(here)}, at the peak ${format.exact(found.most)}` : "";
    }

    // As fine as the window is: neighbours of a wide one differ in less than anybody reads.
    resolution(state) {
        return state.axis === "time" ? Math.min(1e6, (state.zoom[1] - state.zoom[0]) / 1000) : 1e6;
    }

    // What lives within a gap is not in the page.
    atLeast(model, from, to) {
        return model.gaps.count && model.gaps.among({ from: model.gaps.changes.first, to: model.gaps.changes.end }, from, to + 1).count ? "at least " : "";
    }

    showBetween(state, model, change, b) {
        if (!b || b.change === change) {
            this.between.textContent = b ? "This is moment B. Click elsewhere to compare." : "";
            return;
        }
        const [from, to] = [Math.min(b.change, change), Math.max(b.change, change)];
        const made = model.allocated(from + 1, to);
        const sum = model.stacked.reduce((total, c) => total + made[c], 0);
        this.between.textContent = `Between B (${format.time(b.t_ns)}) and here: ${this.atLeast(model, from, to)}${format.bytes(sum)} allocated, ${format.duration(Math.abs(model.timeOf(change) - b.t_ns))}.`;
    }

    // Before there are numbers.
    reading(done, device) {
        this.title.textContent = "Reading the trace …";
        this.step.textContent = `${Math.round(100 * done)} %${device?.name ? ` · ${visible(device.name)}` : ""}`;
        this.phase.textContent = this.event.textContent = "";
        for (const button of [this.peak, this.pinB, this.clearB])
            button.hidden = true;
    }
}
