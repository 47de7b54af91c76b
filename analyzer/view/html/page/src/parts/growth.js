// What the driver gave over the whole run, with the instant that is shown: reserved memory only grows until
// something returns it.
import { greatest } from "../greatest.js";
import { addSteps, createCanvas } from "./canvas.js";

/** -> { element, show(change), destroy() } */
export function growth(context) {
    const { model, format, colours } = context, overview = model.device.overview;
    let at = 0;
    const canvas = createCanvas({ class: "vp-growth", role: "img" }, draw);

    function draw(pen, width, height) {
        if (!overview || !overview.driver_bytes.length)
            return;
        const { driver_bytes: bytes, t_ns: times } = overview, end = Math.max(1, times[times.length - 1], model.timeOf(model.changes - 1));
        const cached = overview.categories?.cached, most = greatest(bytes, 1), line = (values) => {
            pen.beginPath();
            addSteps(pen, values.length, (i) => ((times[i] ?? end) / end) * width, (i) => height - (values[i] / most) * (height - 14));
            pen.lineTo(width, height);
            pen.lineTo(0, height);
            pen.fill();
        };
        pen.fillStyle = colours.of("cached");
        line(bytes);
        if (cached) {
            pen.fillStyle = colours.css("--accent");
            line(bytes.map((value, i) => value - cached[i]));
        }
        const x = (model.timeOf(at) / end) * width;
        pen.fillStyle = colours.css("--fg");
        pen.fillRect(Math.round(x), 0, 1.5, height);
        pen.font = "11px system-ui, sans-serif";
        pen.textBaseline = "top";
        pen.fillText(`peak ${format.bytes(most)}; grey: cached`, 4, 1);
    }
    return {
        element: canvas.element,
        destroy: canvas.destroy,
        show(change) {
            at = change;
            const state = model.state(change);
            canvas.element.setAttribute("aria-label",
                `Driver memory over the run: ${format.bytes(state.driver_bytes)} at the moment shown${
                    overview ? `, ${format.bytes(greatest(overview.driver_bytes, 0))} at most` : ""}`);
            canvas.redraw();
        },
    };
}
