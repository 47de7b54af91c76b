// The picture of blocks over time, and what is under a point of it.
//
// A scene: { model, format, colours, keep, way: "stacked"|"address", axis, zoom: [lo, hi], width, height (CSS pixels),
//   at (change), chosen, hovered (band or null), highlight (category or null),
//   once gathered: samples, gathered: [lo, hi], found, picture: {bands, level, most}, places }
import { hatch } from "../gaps.js";
import { addSteps } from "./canvas.js";
import { NEVER, categoryLabel } from "./view.js";
import { MOST_BLOCKS, bandAt, columnAt, offsetOf } from "./blocks_layout.js";

const LEFT = 60, BOTTOM = 20, TOP = 6;
const FONT = "11px system-ui, sans-serif", FADED = 0.25;

export const plotWidth = (scene) => Math.max(1, Math.floor(scene.width - LEFT));
export const plotHeight = (scene) => Math.max(1, scene.height - BOTTOM - TOP);
const wholeOf = (scene) => Math.max(1, scene.way === "address" ? scene.places.bytes : scene.picture.most);
const yOf = (scene, bytes) => TOP + plotHeight(scene) * (1 - bytes / wholeOf(scene));
const xOf = (scene, x) => LEFT + ((x - scene.zoom[0]) / (scene.zoom[1] - scene.zoom[0])) * plotWidth(scene);
/** Where a position of the pointer is on the axis. */
export const axisAt = (scene, x) =>
    scene.zoom[0] + (Math.max(0, x - LEFT) / plotWidth(scene)) * (scene.zoom[1] - scene.zoom[0]);
/* While another part is being gathered, what is there is shown where it belongs. */
const columnX = (scene, column) =>
    xOf(scene, scene.gathered[0] + (column / scene.found.columns) * (scene.gathered[1] - scene.gathered[0]));

export function phaseText(model, change) {
    const state = model.state(change);
    return `${state.phase}${state.step ? ` of step ${state.step}` : ""}`;
}

export function draw(pen, scene) {
    pen.font = FONT;
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, scene.width - LEFT, scene.height - BOTTOM);
    pen.clip();
    if (scene.way === "stacked" && !scene.found.single && !scene.highlight)
        drawDown(pen, scene);
    else if (scene.way === "stacked")
        for (const band of scene.picture.bands)
            drawBand(pen, scene, band);
    else if (scene.found.single)
        drawAddresses(pen, scene);
    drawGaps(pen, scene);
    outline(pen, scene, scene.hovered?.allocation ?? -1, "--muted", 2);
    outline(pen, scene, scene.chosen ?? -1, "--focus", 3);
    if (scene.chosen !== null)
        drawLife(pen, scene);
    pen.fillStyle = scene.colours.css("--fg");
    pen.fillRect(Math.round(xOf(scene, scene.axis.of(scene.at))), 0, 1, scene.height);
    pen.restore();
    if (scene.way === "address" && !scene.found.single)
        message(pen, scene);
    drawAxes(pen, scene);
}

/* Columns of which nothing is known. */
function drawGaps(pen, scene) {
    const { gap } = scene, high = scene.height - BOTTOM;
    for (let from = gap.indexOf(1); from >= 0; from = gap.indexOf(1, from)) {
        let until = from;
        while (until < gap.length && gap[until])
            until++;
        const left = columnX(scene, from), wide = columnX(scene, until) - left;
        pen.fillStyle = scene.colours.css("--bg");
        pen.fillRect(left, 0, wide, high);
        hatch(pen, left, 0, wide, high, scene.colours.css("--gap"));
        from = until;
    }
}

/* ---- Stacked ---- */

/* One edge of a band, in steps: the upper from left to right, or the lower back. */
function edge(pen, scene, band, backward) {
    const count = band.until - band.first;
    let before = NaN;
    for (let n = 0; n < count; n++) {
        const i = backward ? count - 1 - n : n, column = band.first + i;
        const bytes = backward ? band.bottom[i] : band.bottom[i] + (band.heights ? band.heights[column] : band.bytes);
        if (bytes === before)
            continue;
        const x = columnX(scene, backward ? column + 1 : column);
        if (n)
            pen.lineTo(x, yOf(scene, before));
        pen.lineTo(x, yOf(scene, bytes));
        before = bytes;
    }
    pen.lineTo(columnX(scene, backward ? band.first : band.until), yOf(scene, before));
}

function trace(pen, scene, band) {
    pen.beginPath();
    pen.moveTo(columnX(scene, band.first), yOf(scene, band.bottom[0]));
    edge(pen, scene, band, false);
    edge(pen, scene, band, true);
    pen.closePath();
}

/* Bands from the top, each filled down to zero: thin ones leave no seams. */
function drawDown(pen, scene) {
    const { bands } = scene.picture, zero = yOf(scene, 0);
    for (let n = bands.length - 1; n >= 0; n--) {
        pen.beginPath();
        pen.moveTo(columnX(scene, 0), zero);
        edge(pen, scene, bands[n], false);
        pen.lineTo(columnX(scene, bands[n].until), zero);
        pen.closePath();
        pen.fillStyle = scene.colours.of(bands[n].category);
        pen.fill();
    }
    pen.strokeStyle = scene.colours.css("--bg");
    pen.lineWidth = 0.75;
    for (const band of bands)
        strokeTop(pen, scene, band);
}

const fade =
    (pen, scene, category) => { pen.globalAlpha = scene.highlight && scene.highlight !== category ? FADED : 1; };

/* The upper border of a band of many blocks, where it is high enough to have one. */
function strokeTop(pen, scene, band) {
    const least = (3 / plotHeight(scene)) * scene.picture.most;
    pen.beginPath();
    addSteps(pen, band.until, (column) => columnX(scene, column),
        (column) => (band.heights[column] > least ? yOf(scene, band.bottom[column] + band.heights[column]) : NaN));
    pen.stroke();
}

function drawBand(pen, scene, band) {
    trace(pen, scene, band);
    fade(pen, scene, band.category);
    pen.fillStyle = scene.colours.of(band.category);
    pen.fill();
    pen.strokeStyle = scene.colours.css("--bg");
    pen.lineWidth = 0.75;
    if (band.heights)
        strokeTop(pen, scene, band);
    else if ((band.bytes / scene.picture.most) * plotHeight(scene) > 3)
        pen.stroke();
    pen.globalAlpha = 1;
}

/* ---- By address ---- */

function rectOf(scene, allocation, first, until) {
    const offset = offsetOf(scene.places.ranges, scene.model.address(allocation));
    if (offset < 0)
        return null;
    const left = columnX(scene, first), top = yOf(scene, offset + scene.model.bytes(allocation));
    return [left, top, Math.max(1, columnX(scene, until) - left), Math.max(0.5, yOf(scene, offset) - top)];
}

function drawAddresses(pen, scene) {
    const { model, colours } = scene, { spans } = scene.found;
    pen.lineWidth = 0.5;
    pen.strokeStyle = colours.css("--bg");
    for (let n = 0; n < spans.count; n++) {
        const rect = rectOf(scene, spans.allocation[n], spans.first[n], spans.until[n]);
        if (!rect)
            continue;
        const { category } = model.classes[model.klass[spans.allocation[n]]];
        fade(pen, scene, category);
        pen.fillStyle = colours.of(category);
        pen.fillRect(...rect);
        if (rect[2] > 4 && rect[3] > 4)
            pen.strokeRect(...rect);
    }
    pen.globalAlpha = 1;
    pen.fillStyle = colours.css("--line");
    for (const range of scene.places.ranges)
        pen.fillRect(LEFT, yOf(scene, range.offset), plotWidth(scene), 1);
}

function message(pen, scene) {
    const { format } = scene;
    pen.fillStyle = scene.colours.css("--fg");
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(`${format.count(scene.found.seen)} blocks: zoom in to fewer than ${
                     format.count(MOST_BLOCKS)} to see them by address`,
        LEFT + plotWidth(scene) / 2, scene.height / 2);
}

/* ---- The chosen block ---- */

function outline(pen, scene, allocation, colour, thick) {
    if (allocation < 0)
        return;
    pen.strokeStyle = scene.colours.css(colour);
    pen.lineWidth = thick;
    if (scene.way === "stacked") {
        const band = scene.picture.bands.find((one) => one.allocation === allocation);
        if (!band)
            return;
        trace(pen, scene, band);
        pen.stroke();
        return;
    }
    const first = columnAt(scene.samples, scene.model.begin[allocation]);
    const until = columnAt(scene.samples, scene.model.end[allocation]);
    const rect = first < until ? rectOf(scene, allocation, first, until) : null;
    if (rect)
        pen.strokeRect(...rect);
}

/* From where it was made to where it was freed: of an activation, from forward to the end in backward. */
function drawLife(pen, scene) {
    const { model, axis, chosen } = scene, right = LEFT + plotWidth(scene), bottom = TOP + plotHeight(scene);
    const freed = model.end[chosen] !== NEVER;
    const from = xOf(scene, axis.of(model.begin[chosen])), to = freed ? xOf(scene, axis.of(model.end[chosen])) : right;
    pen.strokeStyle = pen.fillStyle = scene.colours.css("--fg");
    pen.lineWidth = 1.5;
    pen.setLineDash([4, 3]);
    pen.beginPath();
    pen.moveTo(from, bottom);
    pen.lineTo(from, TOP + 12);
    pen.lineTo(to, TOP + 12);
    if (freed)
        pen.lineTo(to, bottom);
    pen.stroke();
    pen.setLineDash([]);
    pen.textBaseline = "bottom";
    const made = `allocated in ${phaseText(model, model.begin[chosen])}`;
    const end = freed ? `freed in ${phaseText(model, model.end[chosen])}` : "";
    const within = (text, x) => Math.max(LEFT + 2, Math.min(x, right - pen.measureText(text).width - 2));
    pen.textAlign = "left";
    pen.fillText(made, within(made, from), TOP + 11);
    if (freed)
        pen.fillText(end, within(end, to + 3), TOP + 25);
}

function drawAxes(pen, scene) {
    const { format } = scene;
    pen.fillStyle = scene.colours.css("--muted");
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const value of format.byteTicks(wholeOf(scene), 5))
        pen.fillText(
            format.byteTick(value), LEFT - 6, Math.min(scene.height - BOTTOM - 4, Math.max(8, yOf(scene, value))));
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const tick of scene.axis.ticks(scene.zoom[0], scene.zoom[1], 8)) {
        const half = pen.measureText(tick.text).width / 2;
        pen.fillText(tick.text, Math.max(half, Math.min(scene.width - half, xOf(scene, tick.x))), scene.height - BOTTOM + 5);
    }
}

/* ---- Under a point ---- */

/** The band at a point, or null; by address, a band of one block. */
export function bandUnder(scene, x, y) {
    if (!scene.picture || y > scene.height - BOTTOM)
        return null;
    const along = (axisAt(scene, x) - scene.gathered[0]) / (scene.gathered[1] - scene.gathered[0]);
    const column = Math.floor(along * scene.found.columns);
    if (x < LEFT || column < 0 || column >= scene.found.columns)
        return null;
    const bytes = ((TOP + plotHeight(scene) - y) / plotHeight(scene)) * wholeOf(scene);
    if (scene.way === "stacked")
        return bandAt(scene.picture.bands, column, bytes);
    return scene.found.single ? blockAtAddress(scene, column, bytes) : null;
}

function blockAtAddress(scene, column, offset) {
    const { model } = scene, { spans } = scene.found;
    for (let n = 0; n < spans.count; n++) {
        if (column < spans.first[n] || column >= spans.until[n])
            continue;
        const allocation = spans.allocation[n], start = offsetOf(scene.places.ranges, model.address(allocation));
        if (start >= 0 && offset >= start && offset < start + model.bytes(allocation))
            return { allocation, category: model.classes[model.klass[allocation]].category, blocks: 1, heights: null };
    }
    return null;
}

const ownerOf = (klass) => klass.label || klass.place?.name || klass.kind;

/** What a band is, in a line. */
export function textOf(scene, band) {
    const { model, format } = scene, category = categoryLabel(model, band.category);
    if (band.allocation >= 0) {
        const { allocation } = band, bytes = model.bytes(allocation), end = model.end[allocation];
        const freed = end === NEVER ? "never freed" : `freed in ${phaseText(model, end)}`;
        return `${ownerOf(model.classes[model.klass[allocation]])} · ${format.bytes(bytes)} (${
            format.exact(bytes)}) · ${category} · made in ${phaseText(model, model.begin[allocation])}, ${freed}`;
    }
    if (band.klass !== undefined)
        return `${ownerOf(model.classes[band.klass])} · ${format.count(band.blocks)} blocks of ${
            format.bytes(band.largest)} at most · ${category}`;
    return `${format.count(band.blocks)} smaller blocks · ${category}`;
}
