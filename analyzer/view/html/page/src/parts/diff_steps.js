// The peaks of each step of two runs, on one axis of step numbers.
import { h, slider } from "../dom.js";
import { greatest } from "../greatest.js";
import { addSteps, createCanvas } from "./canvas.js";
import { showInTimeline } from "./view.js";

const LOW = 16, HIGH = 14; // below and above the picture, for its numbers
const MOST = 1000;         // columns

/** [first, last, of each run the peak by step − first, NaN = no such step], or null where both have none. */
export function peaksOf(runs) {
    const numbers = runs.flatMap((steps) => steps.map(({ step }) => step)), last = greatest(numbers, 0);
    const first = -greatest(numbers.map((number) => -number));
    return numbers.length ? [first, last, runs.map((steps) => {
        const peaks = new Float64Array(last - first + 1).fill(NaN);
        for (const { step, peak_used_bytes: bytes } of steps)
            peaks[step - first] = bytes;
        return peaks;
    })] : null;
}

/* Where there are more steps than columns, each column is its largest. */
function columnsOf(peaks) {
    const count = Math.min(peaks.length, MOST), columns = new Float64Array(count).fill(NaN);
    peaks.forEach((bytes, i) => {
        const column = Math.floor((i * count) / peaks.length);
        if (!(columns[column] >= bytes))
            columns[column] = bytes;
    });
    return columns;
}

/** runs: the steps of A and of B without those before the first -> { element, redraw(), destroy() } */
export function stepsChart(context, runs) {
    const { format, colours, model } = context, [first, last, peaks] = peaksOf(runs), most = greatest(peaks.map((run) => greatest(run, 1)));
    const hint = h("p", { class: "vp-hover", "aria-hidden": "true" }), drawn = peaks.map(columnsOf);
    let at = first;

    const canvas = createCanvas({
        class: "vp-diffsteps", role: "slider", tabindex: "0", "aria-label": "Peak of each step in A and in B", "aria-valuemin": first, "aria-valuemax": last,
        onpointermove: (event) => move(first + Math.floor((event.offsetX / canvas.width) * (last - first + 1))), onclick: show
    }, draw);
    const move = slider(canvas.element, first, last, tellOf, show);

    function draw(pen, width, height) {
        const count = last - first + 1, foot = height - LOW, toX = (column, columns) => (column / columns) * width;
        pen.font = "11px system-ui, sans-serif";
        pen.fillStyle = colours.css("--lane-a");
        pen.fillRect(toX(at - first, count), HIGH, Math.max(1, width / count), foot - HIGH);
        drawn.forEach((columns, run) => {
            const y = (bytes) => foot - (bytes / most) * (foot - HIGH - 2);
            pen.strokeStyle = colours.css(run ? "--accent" : "--fg");
            pen.lineWidth = run ? 2 : 1.5;
            pen.setLineDash(run ? [] : [4, 3]);
            pen.beginPath();
            addSteps(pen, columns.length, (i) => toX(i, columns.length), (i) => y(columns[i]));
            pen.stroke();
        });
        pen.fillStyle = colours.css("--muted");
        pen.fillRect(0, foot, width, 1);
        pen.fillText(format.bytes(most), 2, 10);
        pen.fillText(`step ${format.count(first)}`, 2, height - 3);
        pen.textAlign = "right";
        pen.fillText(format.count(last), width - 2, height - 3);
        pen.textAlign = "left";
    }

    function tellOf(step) {
        at = step;
        const [a, b] = peaks.map((run) => run[at - first]), told = [a, b].map((bytes) => (Number.isNaN(bytes) ? "not there" : format.bytes(bytes)));
        canvas.redraw();
        return hint.textContent = `Step ${format.count(at)}: A ${told[0]}, B ${told[1]}${Number.isNaN(b - a) ? "" : `, ${format.change(b - a)}`}`;
    }

    function show() {
        const step = model.steps.find((one) => one.step === at);
        if (step)
            showInTimeline(context, { event: step.peak_event, first: step.first_event, last: step.last_event });
    }

    move(at);
    return {
        element: h("div", { class: "vp-left" }, h("p", { class: "vp-bar" }, h("span", {}, "Peak of each step: ", h("b", {}, "A"), " dashed, ", h("b", {}, "B"), " solid")),
            canvas.element, hint),
        redraw: canvas.redraw,
        destroy: canvas.destroy,
    };
}
