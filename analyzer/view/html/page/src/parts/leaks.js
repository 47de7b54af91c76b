// Leaks: what each step keeps, who holds it, and what to do.
import { h, name, swatch } from "../dom.js";
import { forecastText } from "../growing.js";
import { deviceOf, categoryLabel } from "./view.js";
import { documentPart, emptyState, showButton, card, factList, codePlace, plural } from "./findings.js";
import { categoryColumn, column, smallTable } from "./table.js";
import { foldedStack, sourceLines } from "./details.js";

/** Whether there is no leak and what was compared (null: not every event was), or why that cannot be said, in a sentence. */
export function noLeakText(steps, unjudged, change, format) {
    const compared = change === null ? "" : `: memory at the start of a step, later half against earlier: ${format.change(change)}`;
    return unjudged || `No leak in ${format.count(steps)} steps${compared}.`;
}

function button(context, leak) {
    const [first, last] = [leak.since_step, leak.last_step].map((number) => context.model.steps.find(({ step }) => step === number));
    if (!first || !last)
        return null;
    return showButton(context, { event: last.peak_event, first: first.first_event, last: last.last_event });
}

function holder(context, leak) {
    if (!leak.holder)
        return null;
    const { format } = context,
                   view = leak.holder_tensor_bytes > 0 && leak.holder_tensor_bytes * 2 <= leak.holder_storage_bytes;
    return h("span", {}, name(leak.holder_way || leak.holder),
        ` ${[leak.holder_dtype, leak.holder_shape].filter(Boolean).join(" ")}`,
        view ? `, a view of ${format.bytes(leak.holder_tensor_bytes)} that keeps all ${
                   format.bytes(leak.holder_storage_bytes)} of its storage: clone() it`
             : "");
}

function lines(context, leak) {
    const found = (leak.lines || []).filter((line) => line.file);
    if (!found.length)
        return null;
    return h("section", {}, h("h4", {}, "Check these lines"),
        h("ol", { class: "vp-lines" },
            found.map((line) => h("li", {}, codePlace(line.file, line.line, line.function),
                          sourceLines(context.names, line.file, line.line)))));
}

/* What lines keep; `perStep`: they are compared by steps. */
function keptTable(context, caption, rows, perStep) {
    return smallTable({
        context,
        caption,
        sort: [perStep ? "bytes_per_step" : "bytes", true],
        columns: [
            LINE,
            perStep ? column("bytes_per_step", "Per step", "bytes", (part) => part.bytes_per_step, { sum: true }) : null,
            column("bytes", perStep ? "Now" : "Bytes", "bytes", (part) => part.bytes, { sum: true }),
            column("blocks", "Blocks", "count", (part) => part.blocks, { sum: true }),
            column("op", "Operator", "text", (part) => part.op),
            categoryColumn(context, "Category", (part) => part.category)
        ].filter(Boolean)
    }, rows);
}

const LINE = column("line", "Line", "text",
    (part) => (part.line?.file ? `${part.line.file.split("/").slice(-2).join("/")}:${part.line.line}` : part.line?.function || ""), {
        cell: (part) => codePlace(part.line?.file, part.line?.line, part.line?.function) ||
            (part.line?.function ? name(part.line.function) : h("span", { class: "vp-muted" }, "no line known"))
    });

function leakCard(context, leak) {
    const { format } = context;
    return card({ heading: `${leak.leak ? "Leak" : "Growth, not a leak"}: ${leak.verdict}`, figure: `${format.bytes(leak.bytes_per_step)} per step`, tone: leak.leak ? "alarm" : null, button: button(context, leak) },
    factList([
      ["Since", `step ${format.count(leak.since_step)}`],
      ["Now", leak.leak ? `${format.bytes(leak.bytes)} in ${format.count(leak.blocks)} ${plural(leak.blocks, "allocation")}` : `${format.bytes(leak.bytes)} reserved but unused`],
      ["Out of memory", leak.forecast_step ? `at about ${forecastText(context.model, leak.forecast_step)}` : null],
      [leak.parts?.some(({ category }) => category !== leak.category) ? "Mostly" : "Category", h("span", {}, swatch(leak.category), categoryLabel(context.model, leak.category))],
      ["Owner", leak.owner ? name(leak.owner) : null], ["Module", leak.module ? name(leak.module) : null],
      ["Held by", holder(context, leak) ?? (leak.holder_unknown ? name(leak.holder_unknown, "vp-wrap") : null)],
      ["Known as", leak.known_as ? [name(leak.known_as.first), " … ", name(leak.known_as.last), `, ${format.count(leak.known_as.blocks)} of its allocations`] : null],
      ["Why", leak.why ? name(leak.why, "vp-wrap") : null], ["Remedy", leak.remedy ? h("strong", {}, leak.remedy) : null]]),
    lines(context, leak), leak.parts?.length > 1 ? keptTable(context, "Kept by each step", leak.parts, true) : null,
    foldedStack(leak.stack));
}

function draw(root, document, context) {
    const device = deviceOf(document, context.model), leaks = device?.leaks || [];
    const unjudged = device ? device.leaks_unjudged : "Nothing was recorded on this GPU, so leaks cannot be judged.";
    if (document.trace?.dropped)
        root.append(h("p", { class: "vp-warning" },
            `${
                context.format.count(
                    document.trace
                        .dropped)} events were lost: what looks like a leak may have been freed in a lost event.`));
    if (!leaks.some((leak) => leak.leak))
        root.append(emptyState(noLeakText(document.steps, unjudged, context.model.gaps.count ? null : device?.leaks_change_bytes ?? null, context.format)));
    root.append(...leaks.map((leak) => leakCard(context, leak)));
    if (device?.remaining?.length)
        root.append(keptTable(context, "Still allocated at the end", device.remaining, false)); // where steps cannot be compared
}

export const create = documentPart((model) => model.document("leaks"), "This page does not include leaks.", draw);
