// A canvas that follows its element's size and the screen's pixels, and draws once a frame.
import {h} from "../dom.js";

/** The pen of a canvas that has as many points as its element has on the screen, emptied. It draws in CSS pixels. */
export function penOf(element) {
    const ratio = window.devicePixelRatio || 1, pen = element.getContext("2d");
    const width = Math.round(element.clientWidth * ratio), height = Math.round(element.clientHeight * ratio);
    if (element.width !== width || element.height !== height)
        [element.width, element.height] = [width, height];
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, element.clientWidth, element.clientHeight);
    return pen;
}

/** Adds to a path a line in steps: each of `count` values, at y(i), from x(i) to x(i + 1), with a break where it is not a number. */
export function addSteps(path, count, x, y) {
    let before = NaN;
    for (let i = 0; i < count; i++) {
        const here = y(i);
        if (!Number.isNaN(here)) {
            path[Number.isNaN(before) ? "moveTo" : "lineTo"](x(i), here);
            path.lineTo(x(i + 1), here);
        }
        before = here;
    }
}

/** A canvas of rows of a height, which scrolls: draw(pen, width, height, top) draws what is seen from `top` on.
 * -> canvas, and { box, rows(count), rowAt(event), reveal(row) } */
export function createRows(high, attributes, scrolled, draw) {
    const canvas = createCanvas({ class: "vp-mapcanvas", ...attributes }, (pen, width, height) => draw(pen, width, height, box.scrollTop));
    const space = h("div"), seen = h("div", { class: "vp-mapsticky" }, canvas.element);
    const box = h("div", { class: "vp-mapscroll", onscroll: canvas.redraw, ...scrolled }, seen, space);
    return Object.assign(canvas, {
        box,
        rows(count) {
            space.style.height = `${Math.max(0, count * high - box.clientHeight)}px`;
        },
        rowAt: (event) => Math.floor((event.clientY - canvas.element.getBoundingClientRect().top + box.scrollTop) / high),
        reveal(row) {
            if (row * high < box.scrollTop || (row + 1) * high > box.scrollTop + box.clientHeight)
                box.scrollTop = row * high - box.clientHeight / 2;
        },
    });
}

/** draw(pen, width, height) in CSS pixels. -> { element, redraw(), width, height, destroy() } */
export function createCanvas(attributes, draw) {
    const element = h("canvas", attributes);
    const self = { element, width: 0, height: 0, redraw, destroy };
    let asked = 0;
    const observer = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(redraw);
    observer?.observe(element);

    function paint() {
        asked = 0;
        [self.width, self.height] = [element.clientWidth, element.clientHeight];
        if (self.width && self.height)
            draw(penOf(element), self.width, self.height);
    }
    function redraw() {
        if (!asked)
            asked = requestAnimationFrame(paint);
    }
    function destroy() {
        observer?.disconnect();
        cancelAnimationFrame(asked);
    }
    return self;
}

/** A text that fits into so many pixels: its end is cut. */
export function fitted(pen, text, room) {
    let letters = text.length;
    while (letters > 1 && pen.measureText(letters < text.length ? `${text.slice(0, letters)}…` : text).width > room)
        letters--;
    return letters < text.length ? `${text.slice(0, letters)}…` : text;
}
