// Blocks over time: each a bar from its begin to its end, stacked or by address. With too many to draw one by
// one, the blocks of a class are one band; what is summed up is said so.
import { h, name, clear, onKeys, toggle, visible } from "../dom.js";
import { chosenBlock, instantOf, isUsed, selectBlock } from "./view.js";
import { followPointer } from "../pointer.js";
import { createCanvas } from "./canvas.js";
import { createDetails } from "./details.js";
import { gather, stack, ranges, columnAt } from "./blocks_layout.js";
import { draw, axisAt, bandUnder, plotHeight, plotWidth, textOf } from "./blocks_draw.js";
import { greatest } from "../greatest.js";

const MOST_COLUMNS = 1600;
const LABEL = "Blocks over time. Up and down choose a block; left and right change the moment.";

/* ---- Gathering ---- */

function layout(scene) {
    const whole = stack(scene.model, scene.found, 0), most = greatest(whole.level, 1);
    // What is lower than half a pixel is summed.
    const picture = scene.found.single ? stack(scene.model, scene.found, (0.5 * most) / plotHeight(scene)) : whole;
    scene.picture = {...picture, most };
    scene.places = placesOf(scene);
}

/* Addresses: what is reserved at the first and last sample, and each block. */
function placesOf(scene) {
    const { model, samples, found, keep } = scene, pieces = [];
    const add = (i) => {
        const klass = model.classes[model.klass[i]];
        if (klass.device === model.device.index && (klass.cached > 0 || keep[model.klass[i]]))
            pieces.push({ address: model.address(i), bytes: model.bytes(i) });
    };
    if (!found.single)
        return { ranges: [], bytes: 0 };
    model.alive(samples[0]).forEach(add);
    model.alive(samples[samples.length - 1]).forEach(add);
    found.spans.allocation.subarray(0, found.spans.count).forEach(add);
    return ranges(pieces);
}

/** Gathers what the zoom shows; `ready` is called when the scene has it. Another call gives the one before up. */
function gatherer(scene, store, ready) {
    let asked = "", run = 0;
    const start = () => {
        const state = store.get(), columns = Math.min(MOST_COLUMNS, plotWidth(scene));
        scene.axis = scene.model.axis(state.axis);
        scene.zoom = [...state.zoom];
        const key = `${state.axis} ${state.zoom} ${columns}`;
        if (key === asked)
            return;
        asked = key;
        const mine = ++run, gathered = scene.zoom, { change, gap } = scene.model.picture(scene.axis, ...gathered, columns);
        const samples = Array.from(change, (one) => Math.max(0, one));
        const pause = () => new Promise((resolve) => { setTimeout(() => resolve(mine !== run)); });
        gather(scene.model, samples, scene.keep, pause).then((found) => {
            if (!found || mine !== run)
                return;
            Object.assign(scene, { found, samples, gathered, gap });
            layout(scene);
            ready();
        });
    };
    return { start, stop: () => run++ };
}

function summary(scene) {
    const { format, found, picture } = scene, { seen, unseen } = found;
    const singles = picture.bands.filter((band) => band.allocation >= 0).length;
    const low = seen > singles ? `, ${format.count(seen - singles)} smaller ones are one bar on top` : "";
    const text = found.single ? `${format.count(singles)} blocks are drawn${low}`
                              : `${format.count(seen)} blocks as ${
                                    format.count(picture.bands.length)} bands of similar blocks: zoom in to see each`;
    return `${text}${unseen ? `; ${format.count(unseen)} too short-lived to draw` : ""}.`;
}

/** The next band above (1) or below (-1) the one that is chosen, at the instant. */
function neighbour(scene, step) {
    const column = Math.max(0, Math.min(scene.found.columns - 1, columnAt(scene.samples, scene.at + 1) - 1));
    const there = scene.picture.bands.filter(
        (band) => column >= band.first && column < band.until && (!band.heights || band.heights[column] > 0));
    const now =
        there.findIndex((band) => scene.chosen !== null ? band.allocation === scene.chosen : band === scene.hovered);
    return there[now < 0 ? (step > 0 ? 0 : there.length - 1) : Math.max(0, Math.min(there.length - 1, now + step))];
}

/* ---- The part ---- */

export function create(root, context) {
    const { store, model, format, colours } = context;
    const keep = Uint8Array.from(model.classes.map((klass) => Number(isUsed(klass) && klass.device === model.device.index)));
    const scene = {
        model,
        format,
        colours,
        keep,
        way: "stacked",
        at: 0,
        chosen: null,
        hovered: null,
        highlight: null,
        picture: null
    };
    const status = h("p", { class: "vp-heading", role: "status" }, "Gathering blocks …");
    const hint = h("p", { class: "vp-hover", "aria-hidden": "true" });
    const canvas = createCanvas(
        { class: "vp-blockscanvas", tabindex: "0", role: "application", "aria-label": LABEL },
        (pen, width, height) => {
            Object.assign(scene, { width, height });
            gathering.start();
            if (scene.picture)
                draw(pen, scene);
        });
    const gathering = gatherer(scene, store, () => {
        status.textContent = summary(scene);
        canvas.redraw();
    });
    const details = createDetails(context, "Choose a block or a band to see who allocated it.");
    const ways = toggle("Height", [["stacked", "Stacked"], ["address", "Address"]], scene.way, (value) => {
        scene.way = value;
        canvas.redraw();
    });
    root.append(h("div", { class: "vp-blocks" },
        h("div", { class: "vp-left" }, h("div", { class: "vp-bar" }, status, ways), canvas.element, hint),
        h("div", { class: "vp-right" }, details.element)));
    followPointer(canvas.element, {
        get axis() {
            return scene.axis;
        },
        get plotWidth() {
            return plotWidth(scene);
        },
        toValue: (x) => axisAt(scene, x),
        hover: (x, y) => hover(x === null ? null : bandUnder(scene, x, y)),
        click: (x, y) => choose(bandUnder(scene, x, y))
    }, store);

    function hover(band) {
        scene.hovered = band;
        clear(hint).append(band ? name(textOf(scene, band)) : "");
        store.set({ highlight: band ? band.category : null });
        canvas.redraw();
    }

    function choose(band) {
        if (!band)
            return;
        context.announce(visible(textOf(scene, band)));
        if (band.allocation >= 0) {
            scene.chosen = band.allocation;
            details.showBlock(band.allocation);
            selectBlock(store, band.allocation);
        } else if (band.klass !== undefined) {
            const bytes = greatest(band.heights);
            details.show(
                { index: band.klass, klass: model.classes[band.klass], bytes, blocks: band.blocks, allocation: -1 },
                null);
        }
        canvas.redraw();
    }

    const step = (by) => () => {
        scene.hovered = neighbour(scene, by) ?? null;
        choose(scene.hovered);
    };
    onKeys(canvas.element, () => (scene.picture ? { ArrowUp: step(1), ArrowDown: step(-1) } : {}));

    function update(state) {
        const chosen = chosenBlock(state, model);
        if (chosen !== scene.chosen && chosen !== null)
            details.showBlock(chosen);
        Object.assign(scene, { at: instantOf(state, model), chosen, highlight: state.highlight ?? null });
        canvas.redraw();
    }

    return {
        update,
        destroy() {
            gathering.stop();
            canvas.destroy();
        }
    };
}
