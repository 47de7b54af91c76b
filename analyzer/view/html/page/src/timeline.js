// The timeline: what a device held, stacked by category, with steps, phases, marks and pins.

import { h as el } from "./dom.js";
import * as format from "./format.js";
import { drawGrowth, growthOf } from "./growing.js";
import { drawLanes, drawMarks, LANE, line, requestAt, termAt, termOf } from "./lanes.js";
import { bandAt, heights, labelPlaces, paintBands } from "./paint.js";
import { addSteps, penOf } from "./parts/canvas.js";
import { followPointer } from "./pointer.js";
import { clampZoom } from "./state.js";
import { hush, tell } from "./terms.js";
import { firstThat } from "./walk.js";
import { drawWhatIf } from "./whatif.js";

const MARGIN = { left: 74, right: 14, top: 34, bottom: 58 };
const FAR = 1.6; // times what is in use: what the driver gave is drawn nearer, above a break
const BREAK = 0.72; // of the height
const FONT = '12px system-ui, "Segoe UI", "Helvetica Neue", sans-serif';

export class Timeline {
    constructor(root, store, colours) {
        this.store = store;
        this.colours = colours;
        this.source = null;
        this.base = el("canvas", { "aria-hidden": "true" });
        this.overlay = el("canvas", { "aria-hidden": "true" });
        this.root = root;
        this.legend = el("p", { class: "gap-legend", hidden: true }, el("span", { class: "gap-swatch", "aria-hidden": "true" }), "events not shown individually");
        root.append(this.base, this.overlay, this.legend);
        root.addEventListener("focus", () => root.matches(":focus-visible") && this.explainPin());
        followPointer(root, this, store);
        new ResizeObserver(() => this.draw()).observe(root);
    }

    show(source) {
        this.source = source;
        this.draw();
        growthOf(source).then((growth) => {
            if (growth.length && this.source === source) {
                this.growth = { source, found: growth };
                this.draw();
            }
        }, () => {}); // the tab that has the document says what is wrong with it
    }

    // Chromium prints what was done to a canvas, and clearing one clears what lies below too: on paper there is one.
    forPaper(printing) {
        this.printing = printing;
        this.overlay.style.display = printing ? "none" : "";
    }

    // ---- Places ----

    get axis() {
        return this.source.axis(this.store.get().axis);
    }

    get area() {
        return {
            left: MARGIN.left, top: MARGIN.top, width: Math.max(10, this.width - MARGIN.left - MARGIN.right),
            height: Math.max(10, this.height - MARGIN.top - MARGIN.bottom - (this.source.requests?.lanes ?? 0) * (LANE + 1)),
        };
    }

    get plotWidth() {
        return this.area.width;
    }

    toX(value) {
        const [lo, hi] = this.store.get().zoom;
        return this.area.left + ((value - lo) / (hi - lo)) * this.area.width;
    }

    toValue(x) {
        const [lo, hi] = this.store.get().zoom;
        return lo + ((x - this.area.left) / this.area.width) * (hi - lo);
    }

    toY(bytes) {
        return this.area.top + this.area.height - (bytes / this.scale) * this.area.height;
    }

    // The change that is drawn at a place: the largest of its column.
    changeAt(x) {
        if (!this.picture || this.source.isPreview)
            return null;
        const column = Math.floor(((x - this.area.left) / this.area.width) * this.picture.count);
        return column >= 0 && column < this.picture.count && !this.picture.gap[column] ? this.picture.change[column] : null;
    }

    // ---- Drawing ----

    draw() {
        this.width = this.root.clientWidth;
        this.height = this.root.clientHeight;
        if (!this.source || this.width < 40 || this.height < 40)
            return;
        const state = this.store.get();
        const context = penOf(this.base);
        const ratio = this.ratio = window.devicePixelRatio || 1;
        const { area } = this;
        const columns = Math.round(area.width * Math.min(ratio, 1.5));
        this.picture = this.source.picture(this.axis, state.zoom[0], state.zoom[1], columns);
        this.scaleTo(state);
        const { bands, found } = this.source;
        this.lit = bands.find(({ name }) => name === state.highlight)?.name ?? (found?.most ? found.name : null);
        paintBands(context, {
            left: Math.round(area.left * ratio), top: Math.round(area.top * ratio), width: Math.round(area.width * ratio), height: Math.round(area.height * ratio),
        }, this.picture, this.source, this.scale, this.colours, { ...state, highlight: this.lit, reserved: (bytes) => this.nearer(bytes) });
        context.font = FONT;
        this.drawScale(context);
        this.drawTime(context, state);
        this.drawLabels(context, state);
        this.drawDriver(context);
        if (!this.source.isPreview) {
            if (state.whatif)
                drawWhatIf(this, context, state.whatif);
            else
                drawGrowth(this, context);
            drawLanes(this, context, state);
            drawMarks(this, context);
        }
        this.legend.hidden = !this.picture.gap.includes(1);
        this.legend.classList.toggle("left", this.toX(this.axis.of(this.source.peak ?? 0)) > this.area.left + this.area.width / 2);
        this.drawOverlay();
    }

    scaleTo(state) {
        const { used, driver, cached } = heights(this.picture, this.source);
        this.driver = driver;
        this.cached = cached;
        const card = this.source.device.total_bytes;
        const wanted = { use: used, driver: Math.max(driver, used), card: card || driver }[state.scale] ?? (!used || driver <= FAR * used ? Math.max(driver, used) : used / BREAK);
        const ticks = format.byteTicks(Math.max(1, wanted), Math.max(2, Math.floor(this.area.height / 38)));
        this.step = ticks[1] ?? 1;
        this.scale = Math.max(1, wanted) * 1.04;
        this.break = state.scale === "auto" && driver > this.scale ? used * 1.03 : 0;
    }

    // The bytes at whose height the driver's are drawn.
    nearer(bytes) {
        return this.break && bytes > this.break ? this.break + ((bytes - this.break) / (this.driver - this.break)) * (0.95 * this.scale - this.break) : bytes;
    }

    drawScale(context) {
        const { area, scale, step, colours } = this;
        context.textBaseline = "middle";
        context.textAlign = "right";
        const ticks = Array.from({ length: Math.floor((this.break || scale) / step) + 1 }, (_, i) => i * step);
        for (const bytes of this.break ? [...ticks, this.driver] : ticks) {
            const y = Math.round(area.top + area.height - (this.nearer(bytes) / scale) * area.height) + 0.5;
            context.strokeStyle = colours.css("--line");
            context.globalAlpha = bytes ? 0.55 : 1;
            line(context, area.left, y, area.left + area.width, y);
            context.globalAlpha = 1;
            context.fillStyle = colours.css("--muted");
            context.fillText(bytes % step ? format.bytes(bytes) : format.byteTick(bytes), area.left - 8, y);
        }
        const y = area.top + area.height * (1 - this.break / scale);
        context.strokeStyle = colours.css("--muted");
        for (const by of this.break ? [0, 4] : [])
            line(context, area.left - 7, y + by, area.left + 7, y + by - 6);
        const card = this.source.device.total_bytes;
        if (card && card <= scale) {
            const y = Math.round(area.top + area.height - (card / scale) * area.height) + 0.5;
            context.strokeStyle = context.fillStyle = colours.css("--alarm");
            context.setLineDash([6, 4]);
            line(context, area.left, y, area.left + area.width, y);
            context.setLineDash([]);
            context.textBaseline = "top";
            context.fillText(`GPU ${format.bytes(card)}`, area.left + area.width - 4, y + 4);
        }
    }

    drawTime(context, state) {
        const { area, colours } = this;
        const y = area.top + area.height;
        context.textBaseline = "top";
        context.textAlign = "center";
        for (const { x: value, text } of this.axis.ticks(state.zoom[0], state.zoom[1], Math.max(2, Math.floor(area.width / 110)))) {
            const x = Math.round(this.toX(value)) + 0.5;
            context.strokeStyle = colours.css("--muted");
            line(context, x, y, x, y + 4);
            context.fillStyle = colours.css("--muted");
            const half = context.measureText(text).width / 2;
            context.fillText(text, Math.min(Math.max(x, area.left + half - 20), area.left + area.width - half + MARGIN.right - 2), y + 6);
        }
    }

    drawLabels(context, state) {
        const { area, scale, source, colours } = this;
        context.textBaseline = "middle";
        context.textAlign = "center";
        const text = `${this.break ? "not to scale: " : this.driver > scale ? "↑ " : ""}up to ${format.bytes(this.driver)} from the driver`;
        const long = `${text}, up to ${format.bytes(this.cached)} of it cached`;
        const above = { name: null, label: context.measureText(long).width < area.width ? long : text, index: source.driverAt };
        const places = labelPlaces(this.picture, source, { width: area.width, height: area.height, scale }, (label) => context.measureText(label).width, 16, above, (bytes) => this.nearer(bytes));
        for (const { name, label, x, y } of places) {
            if (this.lit && name && this.lit !== name)
                continue;
            if (state.patterns && name) {
                const wide = context.measureText(label).width + 8;
                context.fillStyle = colours.of(name);
                context.fillRect(area.left + x - wide / 2, area.top + y - 8, wide, 16);
            }
            context.fillStyle = name ? colours.ink(name) : colours.css("--muted");
            context.fillText(label, area.left + x, area.top + y);
        }
        if (this.driver > 1.05 * scale && places.every(({ name }) => name)) {
            context.textAlign = "right";
            this.outlined(context, text, area.left + area.width - 4, area.top + 9);
        }
    }

    drawDriver(context) {
        const { area, picture, scale, source } = this;
        const wide = area.width / picture.count;
        if (this.nearer(this.driver) > scale)
            return;
        context.strokeStyle = this.colours.css("--muted");
        context.lineWidth = 1.25;
        context.beginPath();
        addSteps(context, picture.count, (column) => area.left + column * wide,
            (column) => this.toY(this.nearer(picture.vectors[column * picture.width + source.driverAt])));
        context.stroke();
        context.lineWidth = 1;
    }

    // Text on what may be of any colour.
    outlined(context, text, x, y, colour = "--fg") {
        context.strokeStyle = this.colours.css("--bg");
        context.lineWidth = 3;
        context.lineJoin = "round";
        context.strokeText(text, x, y);
        context.lineWidth = 1;
        context.fillStyle = this.colours.css(colour);
        context.fillText(text, x, y);
    }

    // ---- What follows the pointer ----

    drawOverlay() {
        if (!this.source || !this.picture)
            return;
        const context = this.printing ? this.base.getContext("2d") : penOf(this.overlay);
        context.font = `600 ${FONT}`;
        if (this.brush)
            this.shade(context, ...this.brush);
        if (this.source.isPreview)
            return;
        const { hover, pinA, pinB } = this.store.get();
        const a = pinA ?? this.source.peak;
        if (pinB !== null)
            this.shade(context, this.toX(this.axis.of(pinB)), this.toX(this.axis.of(a)));
        if (hover !== null)
            this.cursor(context, hover, "", "--muted", []);
        if (pinB !== null)
            this.cursor(context, pinB, "B", "--pin-b", [5, 3]);
        this.cursor(context, a, "A", "--accent", []);
    }

    shade(context, a, b) {
        const { area } = this;
        const from = Math.max(area.left, Math.min(a, b));
        const to = Math.min(area.left + area.width, Math.max(a, b));
        context.fillStyle = this.colours.css("--shade");
        if (to > from)
            context.fillRect(from, area.top, to - from, area.height);
    }

    cursor(context, change, flag, colour, dash) {
        const { area } = this;
        const x = this.toX(this.axis.of(change));
        if (x < area.left - 1 || x > area.left + area.width + 1)
            return;
        context.strokeStyle = this.colours.css(colour);
        context.setLineDash(dash);
        context.lineWidth = flag ? 2 : 1;
        line(context, x, area.top, x, area.top + area.height + 22);
        context.setLineDash([]);
        if (!flag)
            return;
        const y = area.top + area.height + 6;
        context.fillStyle = this.colours.css(colour);
        context.fillRect(x - 8, y, 16, 16);
        context.fillStyle = this.colours.css("--bg");
        context.textAlign = "center";
        context.textBaseline = "middle";
        context.fillText(flag, x, y + 8.5);
    }

    // ---- What the pointer does (pointer.js) ----

    hover(x, y) {
        const inside = x !== null && x >= this.area.left && x <= this.area.left + this.area.width && y < this.area.top + this.area.height + 40;
        const change = inside ? this.changeAt(x) : null;
        let highlight = null;
        if (inside && this.picture && y >= this.area.top) {
            const column = Math.min(this.picture.count - 1, Math.max(0, Math.floor(((x - this.area.left) / this.area.width) * this.picture.count)));
            highlight = bandAt(this.picture, this.source, column, (1 - (y - this.area.top) / this.area.height) * this.scale);
        }
        this.explain(x, y, inside);
        this.store.set({ hover: change, highlight: inside && y < this.area.top + this.area.height ? highlight : null });
    }

    // What is not known under the pointer, and what a mark or a lane means.
    explain(x, y, inside) {
        const { picture, area, source } = this;
        const column = inside && picture ? Math.floor(((x - area.left) / area.width) * picture.count) : -1;
        const place = (text) => ({ x: this.root.getBoundingClientRect().left + x + 12, y: this.root.getBoundingClientRect().top + y + 16, text });
        const term = x === null || !picture || source.isPreview ? undefined : termAt(this, x, y);
        if (picture?.gap[column]) {
            const [lo, hi] = this.store.get().zoom;
            const wide = (hi - lo) / picture.count;
            const { events, count } = source.gaps.among(this.axis.gaps, lo + column * wide, lo + (column + 1) * wide);
            tell(this.root, "gap", place(`${format.count(events)} events ${count > 1 ? `in ${format.count(count)} gaps ` : ""}not shown individually`));
        } else if (term) {
            tell(this.root, term, { ...place(), figures: term === "request" ? requestAt(this, x, y) : "" });
        } else if (this.hinted) {
            hush();
        }
        this.hinted = Boolean(term || picture?.gap[column]);
    }

    // The pinned moment, for those who move it by keys.
    explainPin() {
        if (!this.picture || this.source.isPreview)
            return;
        const change = this.store.get().pinA ?? this.source.peak;
        const box = this.root.getBoundingClientRect();
        tell(this.root, termOf(this.source, change), { x: box.left + this.toX(this.axis.of(change)) + 12, y: box.bottom - 48 });
    }

    click(x, y, second) {
        const change = this.changeAt(x);
        if (change !== null)
            this.store.set(second ? { pinB: change } : { pinA: change });
    }

    select(a, b) {
        this.brush = null;
        if (Math.abs(a - b) > 4)
            this.store.set({ zoom: clampZoom(this.axis, this.toValue(Math.max(this.area.left, Math.min(a, b))), this.toValue(Math.min(this.area.left + this.area.width, Math.max(a, b)))) });
        this.drawOverlay();
    }

    selecting(a, b) {
        this.brush = [a, b];
        this.drawOverlay();
    }

    // Where there is none, or it is all that is seen: the whole run.
    zoomToStep(x) {
        const { axis, source } = this;
        const { zoom } = this.store.get();
        const i = source.steps.length ? firstThat(source.steps.length, (at) => axis.stepBegin(at) > this.toValue(x)) - 1 : -1;
        const step = i < 0 ? zoom : clampZoom(axis, axis.stepBegin(i), i + 1 < source.steps.length ? axis.stepBegin(i + 1) : axis.hi);
        this.store.set({ zoom: step.every((value, end) => Math.abs(value - zoom[end]) < axis.least) ? [axis.lo, axis.hi] : step });
    }
}
