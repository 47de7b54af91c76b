// A canvas that follows its element's size and the screen's pixels, and draws once a frame.
import {h} from "../dom.js";

/** draw(pen, width, height) in CSS pixels. -> { element, pen, redraw(), width, height, destroy() } */
export function createCanvas(attributes, draw) {
    const element = h("canvas", attributes), pen = element.getContext("2d");
    const self = { element, pen, width: 0, height: 0, redraw, destroy };
    let asked = 0;
    const observer = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(redraw);
    observer?.observe(element);

    function paint() {
        asked = 0;
        const ratio = window.devicePixelRatio || 1;
        self.width = element.clientWidth;
        self.height = element.clientHeight;
        const width = Math.round(self.width * ratio), height = Math.round(self.height * ratio);
        if (!width || !height)
            return;
        if (element.width !== width || element.height !== height)
            [element.width, element.height] = [width, height];
        pen.setTransform(ratio, 0, 0, ratio, 0, 0);
        pen.clearRect(0, 0, self.width, self.height);
        draw(pen, self.width, self.height);
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
