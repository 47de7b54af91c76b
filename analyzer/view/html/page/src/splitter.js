// The line between timeline and parts, which can be moved.

export function splitter(handle, root) {
    let share = 46;
    const set = (percent) => {
        share = Math.min(75, Math.max(24, percent));
        root.style.setProperty("--split", `${share}vh`);
        handle.setAttribute("aria-valuenow", String(Math.round(share)));
    };
    handle.addEventListener("pointerdown", (event) => {
        handle.setPointerCapture(event.pointerId);
        event.preventDefault();
    });
    handle.addEventListener("pointermove", (event) => {
        if (handle.hasPointerCapture(event.pointerId)) {
            const top = document.getElementById("stage").getBoundingClientRect().top;
            set((100 * (event.clientY - top)) / window.innerHeight);
        }
    });
    handle.addEventListener("keydown", (event) => {
        const by = { ArrowUp: -2, ArrowDown: 2 }[event.key];
        if (by) {
            event.preventDefault();
            set(share + by);
        }
    });
    handle.addEventListener("dblclick", () => set(46));
    set(46);
}
