// The page: reads the trace, and joins the timeline, the table of the moment and the parts.

import { Address } from "./address.js";
import { Bands } from "./bands.js";
import { Colours } from "./colours.js";
import { listenToCopies } from "./copy.js";
import { DataError } from "./data.js";
import { allOf, byId, clear, h as el } from "./dom.js";
import * as format from "./format.js";
import { showHeading, spoken } from "./heading.js";
import { Instant } from "./instant.js";
import { KEYS, listen, MOUSE } from "./keys.js";
import { Model, TraceData } from "./model.js";
import { Overview } from "./overview.js";
import { parts } from "./parts.js";
import { Preview } from "./preview.js";
import { openReader, serve } from "./reader.js";
import { Room } from "./room.js";
import { applyFragment, clampZoom, fromFragment, Store, toFragment } from "./state.js";
import { Tabs } from "./tabs.js";
import { Timeline } from "./timeline.js";
import { explain, glossary } from "./terms.js";

class Page {
    constructor(head, base64, source) {
        this.head = head;
        this.asked = fromFragment(location.hash, head);
        this.store = new Store(this.asked.patch);
        this.colours = new Colours(document.documentElement);
        this.timeline = new Timeline(byId("chart"), this.store, this.colours);
        this.overview = new Overview(byId("overview"), this.store, this.colours);
        this.bands = new Bands(this.store, (source) => [this.timeline, this.overview, this.instant].forEach((part) => part.show(source)));
        this.instant = new Instant(byId("instant"), this.store, {
            pinB: () => this.toggleB(), clearB: () => this.store.set({ pinB: null }), peak: () => this.toPeak(),
        });
        this.tabs = new Tabs(byId("tabs"), byId("panels"), parts.filter(({ wanted }) => wanted?.(head) ?? true), this.store);
        this.reader = openReader(head, base64, source);
        this.datas = new Map();
        this.address = new Address();
        this.room = new Room(this.store);
        this.controls();
        this.applyTheme();
        listen(this);
        explain();
        this.store.subscribe((state, keys) => this.update(state, keys));
        this.tabs.update(this.store.get());
        this.preview();
        this.load();
    }

    get trace() {
        return this.head.traces[this.store.get().trace];
    }

    get device() {
        return this.trace.devices.find(({ index }) => index === this.store.get().device) ?? this.trace.devices[0];
    }

    // ---- Reading ----

    preview() {
        this.model = this.bands.model = null;
        showHeading(this.head, this.trace, this.store.get().trace, this.device);
        document.body.classList.toggle("empty", !this.device);
        if (!this.device)
            return;
        const preview = new Preview(this.head, this.store.get().trace, this.device);
        this.store.state.zoom = [0, preview.time.hi];
        this.timeline.show(preview);
        this.overview.show(preview);
        this.instant.reading(0, this.device);
    }

    async load() {
        const { trace: index } = this.store.get();
        if (!this.device) {
            this.progress(1);
            clear(byId("panels"), el("p", { class: "nothing" }, "This trace contains no GPU allocations."));
            document.body.dataset.ready = "yes";
            return;
        }
        try {
            if (!this.datas.has(index))
                this.datas.set(index, await this.read(index));
            if (this.store.get().trace === index)
                this.show(this.datas.get(index));
        } catch (error) {
            this.trouble(error);
        }
        this.progress(1);
    }

    async read(index) {
        this.progress(0);
        const reader = await this.reader;
        const read = await reader.trace(index, (done) => this.progress(done));
        return new TraceData(this.head, index, read, (blob, what) => reader.text(blob, what));
    }

    show(data) {
        this.model = new Model(data, this.trace.devices.indexOf(this.device));
        const asked = this.asked ?? { patch: this.store.get(), zoom: [null, null], a: null, b: null, selection: null };
        this.asked = null;
        Object.assign(this.store.state, { hover: null, highlight: null }, applyFragment(asked, this.model));
        this.bands.open(this.model);
        const context = {
            store: this.store, model: this.model, names: data.names, format, colours: this.colours, announce: (text) => this.announce(text),
            axis: () => this.model.axis(this.store.get().axis),
        };
        this.tabs.renew(context);
        this.update(this.store.get(), new Set(["zoom", "pinA", "axis"]));
        document.body.dataset.ready = "yes";
    }

    progress(done) {
        const line = byId("progress");
        line.hidden = done >= 1;
        line.value = done;
        if (done < 1 && this.device && !this.model)
            this.instant.reading(done, this.device);
    }

    trouble(error) {
        console.error(error);
        showTrouble(error instanceof DataError ? error.message : `The page could not show this trace: ${error.message}`);
    }

    // ---- Showing ----

    update(state, keys) {
        const changed = (...names) => names.some((key) => keys.has(key));
        if (changed("trace", "device")) {
            this.reopen();
            return;
        }
        this.room.update(state, keys);
        if (changed("theme"))
            this.applyTheme();
        if (changed("axis", "theme", "patterns"))
            this.overview.draw();
        if (changed("zoom", "axis", "theme", "patterns", "scale", "highlight", "whatif"))
            this.timeline.draw();
        else if (changed("hover", "pinA", "pinB"))
            this.timeline.drawOverlay();
        if (changed("zoom", "axis", "pinA", "pinB"))
            this.overview.place();
        this.showControls(state);
        if (!this.model)
            return;
        this.bands.update(keys);
        if (changed("hover", "pinA", "pinB", "highlight", "axis", "zoom"))
            this.instant.update(state);
        if (changed("pinA") && document.activeElement === byId("chart") && byId("chart").matches(":focus-visible"))
            this.timeline.explainPin();
        if (changed("pinA", "pinB"))
            this.announce(spoken(this.model, state));
        this.slider(state);
        if (changed("tab", "axis", "zoom", "pinA", "pinB", "selection", "filter", "theme", "patterns", "hover", "highlight"))
            this.tabs.update(state);
        this.address.note(state, this.model, keys);
    }

    reopen() {
        const state = this.store.get();
        if (!this.trace.devices.some(({ index }) => index === state.device))
            state.device = this.trace.devices[0]?.index ?? 0;
        Object.assign(state, { pinA: null, pinB: null, hover: null, selection: null, whatif: null });
        delete document.body.dataset.ready;
        byId("trouble").hidden = true;
        this.preview();
        this.load();
    }

    applyTheme() {
        const { theme } = this.store.get();
        const dark = theme === "auto" ? matchMedia("(prefers-color-scheme: dark)").matches && !this.printing : theme === "dark";
        this.colours.apply(dark && !this.printing ? "dark" : "light");
    }

    redraw() {
        this.applyTheme();
        this.overview.draw();
        this.timeline.draw();
        if (this.model)
            this.tabs.update({ ...this.store.get() });
    }

    slider(state) {
        const chart = byId("chart");
        chart.setAttribute("aria-valuemin", "0");
        chart.setAttribute("aria-valuemax", String(this.model.changes - 1));
        chart.setAttribute("aria-valuenow", String(this.pinned()));
        chart.setAttribute("aria-valuetext", spoken(this.model, state));
    }

    announce(text) {
        clearTimeout(this.announceTimer);
        this.announceTimer = setTimeout(() => {
            byId("live").textContent = text;
        }, 150);
    }

    // ---- Controls ----

    controls() {
        const { store } = this;
        byId("trace").addEventListener("change", (event) => store.set({ trace: Number(event.target.value) }));
        byId("device").addEventListener("change", (event) => store.set({ device: Number(event.target.value) }));
        // What is searched are names of what is alive: they stand under "Who".
        byId("search").addEventListener("input", (event) => store.set({ filter: event.target.value, tab: store.get().tab === "flame" ? "flame" : "who" }));
        byId("compare").addEventListener("click", () => this.toggleB());
        byId("help-button").addEventListener("click", () => this.help());
        byId("theme").addEventListener("click", () => {
            const order = matchMedia("(prefers-color-scheme: dark)").matches ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
            store.set({ theme: order[(order.indexOf(store.get().theme) + 1) % 3] });
        });
        byId("patterns").addEventListener("click", () => store.set({ patterns: !store.get().patterns }));
        for (const key of ["scale", "by"])
            byId(key).addEventListener("change", (event) => store.set({ [key]: event.target.value }));
        listenToCopies(this);
        byId("whole").addEventListener("click", () => this.whole());
        for (const input of allOf("input[name=axis]"))
            input.addEventListener("change", () => this.setAxis(input.value));
        matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
        addEventListener("hashchange", () => this.follow());
        for (const event of ["beforeprint", "afterprint"])
            addEventListener(event, () => {
                this.printing = event === "beforeprint";
                this.timeline.forPaper(this.printing);
                this.redraw();
            });
        clear(byId("help-keys"), ...[...KEYS, ...MOUSE].map(({ shown, about }) => el("tr", {}, el("th", { scope: "row" }, el("kbd", {}, shown)), el("td", {}, about))));
        clear(byId("help-terms"), ...glossary().map(([term, text]) => [el("dt", {}, term), el("dd", {}, text)]));
        this.showControls(store.get());
    }

    // The address was changed by hand, or a link to another place of this page was followed.
    follow() {
        if (this.model && location.hash.slice(1) === toFragment(this.store.get(), this.model))
            return;
        if (this.model && location.hash === "#chart") { // only the focus went there
            this.address.write(this.store.get(), this.model);
            return;
        }
        const asked = fromFragment(location.hash, this.head, this.store.get());
        this.address.followed = true;
        const { trace, device } = this.store.get();
        if (!this.model || asked.patch.trace !== trace || asked.patch.device !== device) {
            this.asked = asked;
            this.store.set(asked.patch);
        } else {
            this.store.set({ ...asked.patch, ...applyFragment(asked, this.model) });
        }
        if (document.body.scrollHeight > window.innerHeight) // a narrow page: what was opened may be below
            byId("tabs").scrollIntoView();
    }

    showControls(state) {
        const theme = byId("theme");
        theme.textContent = { auto: "◐", light: "☀", dark: "☾" }[state.theme];
        theme.setAttribute("aria-label", `Colours: ${state.theme}. Change`);
        theme.title = `Colours: ${state.theme === "auto" ? "system" : state.theme}`;
        byId("patterns").setAttribute("aria-pressed", String(state.patterns));
        byId("compare").setAttribute("aria-pressed", String(state.pinB !== null));
        byId("scale").value = state.scale;
        byId("by").value = state.by;
        if (document.activeElement !== byId("search"))
            byId("search").value = state.filter;
        for (const input of allOf("input[name=axis]"))
            Object.assign(input, { checked: input.value === state.axis, disabled: input.value === "step" && Boolean(this.model) && !this.model.steps.length });
        const axis = this.model?.axis(state.axis);
        byId("whole").disabled = !axis || (state.zoom[0] <= axis.lo && state.zoom[1] >= axis.hi);
    }

    // ---- What keys and buttons do ----

    pinned() {
        return this.store.get().pinA ?? this.model.peak;
    }

    pin(change) {
        const to = Math.min(this.model.changes - 1, Math.max(0, change));
        this.store.set({ pinA: to, hover: null });
        this.bringIntoView(to);
    }

    bringIntoView(change) {
        const axis = this.model.axis(this.store.get().axis);
        const [lo, hi] = this.store.get().zoom;
        const x = axis.of(change);
        if (x < lo || x > hi)
            this.store.set({ zoom: clampZoom(axis, x - (hi - lo) / 2, x + (hi - lo) / 2) });
    }

    move(by) {
        this.pin(this.model.gaps.beside(this.pinned() + by, by));
    }

    // The same place of the next step would be a guess: its largest moment is what people look for.
    moveStep(by) {
        const { steps } = this.model;
        const event = this.model.eventOf(this.pinned());
        let at = steps.findIndex((step) => event >= step.first_event && event <= step.last_event);
        if (at < 0)
            at = by > 0 ? -1 : steps.length;
        const step = steps[at + by];
        if (step)
            this.pin(this.model.changeAtEvent(step.peak_event));
        else
            this.announce(by > 0 ? "This is the last step." : "This is the first step.");
    }

    toPeak() {
        this.pin(this.model.peak);
    }

    toggleB() {
        const state = this.store.get();
        this.store.set({ pinB: state.pinB === null ? this.pinned() : null });
        this.announce(state.pinB === null ? "Pinned as B. Move to another moment to compare." : "B cleared.");
    }

    // The same window of the run on another axis.
    setAxis(axisName) {
        if (!this.model || axisName === this.store.get().axis)
            return;
        const from = this.model.axis(this.store.get().axis);
        const to = this.model.axis(axisName);
        const [lo, hi] = this.store.get().zoom;
        const whole = lo <= from.lo && hi >= from.hi;
        const first = from.changeAt(lo) + 1;
        const last = from.changeAt(hi);
        const zoom = whole || last <= first ? [to.lo, to.hi] : [to.of(first), to.of(last)];
        this.store.set({ axis: axisName, zoom: zoom[1] > zoom[0] ? zoom : [to.lo, to.hi] });
    }

    whole() {
        const axis = this.model.axis(this.store.get().axis);
        this.store.set({ zoom: [axis.lo, axis.hi] });
    }

    focusSearch() {
        byId("search").focus();
        byId("search").select();
    }

    help() {
        byId("help").showModal();
    }
}

function showTrouble(text) {
    byId("trouble").hidden = false;
    byId("trouble").textContent = text;
    document.body.dataset.ready = "no";
}

function start() {
    const source = document.currentScript?.textContent ?? "";
    try {
        const head = JSON.parse(byId("vramtrace-page").textContent);
        if (head.format !== "vramtrace.page/2")
            throw new DataError("The versions of this page's data and program differ. Write it again with “vramtrace html”.");
        const data = byId("vramtrace-data");
        const base64 = data.textContent;
        data.remove(); // the text is not needed twice
        window.vramtrace = new Page(head, base64, source);
    } catch (error) {
        showTrouble(error instanceof DataError ? error.message
            : `The data in this page is damaged or incomplete (${error.message}). Copy the file again, or write it again with “vramtrace html”.`);
    }
}

if (typeof document === "undefined")
    serve(self);
else
    start();
