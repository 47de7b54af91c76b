// Wheel, drag, pinch and click on a picture of a run, which has an axis, a width and the value at each place: they move and zoom its
// window; the rest is the picture's: hover, click, and where it has these, selecting, select and zoomToStep.

import { clampZoom, zoomAround } from "./state.js";

const MOVED = 4; // points from which a press is a drag

export function followPointer(root, picture, store) {
    const down = new Map();
    let start = null;
    const pan = (pixels) => {
        const [lo, hi] = store.get().zoom, by = (pixels / picture.plotWidth) * (hi - lo);
        store.set({ zoom: clampZoom(picture.axis, lo - by, hi - by) });
    };
    // Around the value at `x`, which stays where it is.
    const zoomAt = (x, factor) => {
        const { zoom } = store.get();
        store.set({ zoom: zoomAround(picture.axis, zoom, Math.min(zoom[1], Math.max(zoom[0], picture.toValue(x))), factor) });
    };
    const pinch = (id, now) => {
        const [, other] = [...down].find(([key]) => key !== id), before = down.get(id);
        const old = Math.abs(before.x - other.x), wide = Math.abs(now.x - other.x);
        if (old > 8 && wide > 8)
            zoomAt((now.x + other.x) / 2, old / wide);
        pan((now.x - before.x) / 2);
    };
    const place = (event) => {
        const box = root.getBoundingClientRect();
        return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    root.addEventListener("pointermove", (event) => {
        const { x, y } = place(event);
        const before = down.get(event.pointerId);
        if (!before) {
            picture.hover(x, y);
            return;
        }
        if (down.size === 2) {
            pinch(event.pointerId, { x, y });
        } else if (start && (start.moved || Math.abs(x - start.x) > MOVED)) {
            start.moved = true;
            if (start.selects)
                picture.selecting(start.x, x);
            else
                pan(x - before.x);
        }
        down.set(event.pointerId, { x, y });
    });
    root.addEventListener("pointerdown", (event) => {
        if (event.button !== 0)
            return;
        root.setPointerCapture(event.pointerId);
        down.set(event.pointerId, place(event));
        start = down.size === 1 ? { ...place(event), moved: false, selects: event.shiftKey && picture.select } : null;
    });
    root.addEventListener("pointerup", (event) => {
        const { x, y } = place(event);
        down.delete(event.pointerId);
        if (start && start.moved && start.selects)
            picture.select(start.x, x);
        else if (start && !start.moved)
            picture.click(x, y, event.shiftKey);
        start = null;
        picture.hover(x, y);
    });
    root.addEventListener("pointercancel", (event) => {
        down.delete(event.pointerId);
        start = null;
    });
    root.addEventListener("pointerleave", () => {
        if (!down.size)
            picture.hover(null, null);
    });
    root.addEventListener("dblclick", (event) => picture.zoomToStep?.(place(event).x));
    root.addEventListener("wheel", (event) => {
        event.preventDefault();
        const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
        const { x, y } = place(event);
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
            pan(-unit * (event.deltaX || event.deltaY));
        else
            zoomAt(x, Math.exp(Math.max(-1, Math.min(1, event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.002)))));
        picture.hover(x, y);
    }, { passive: false });
}
