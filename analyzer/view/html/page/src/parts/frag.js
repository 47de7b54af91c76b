// Fragmentation at the instant: free memory that the process holds, and the blocks that keep it from being returned.
import { h, clear } from "../dom.js";
import { NEVER, instantOf, momentText, selectBlock } from "./view.js";
import { mapAt, pinsOf } from "./map_layout.js";
import { emptyState, factList } from "./findings.js";
import { categoryColumn, column, createTable } from "./table.js";
import { createDetails } from "./details.js";

export function create(root, context) {
    const { store, model, format } = context;
    let at = null;
    const summary = h("div"), details = createDetails(context, "Choose a line to see the block that pins a segment.");
    const table = createTable({
        context,
        caption: "Lines whose blocks pin segments",
        sort: ["kept", true],
        key: (line) => line.key,
        empty: "No block pins a segment with free memory.",
        choose(line) {
            table.select(line.key);
            details.showBlock(line.pin.allocation);
            selectBlock(store, line.pin.allocation);
        },
        columns: [
            column("line", "Line", "name", (line) => line.name || "no line known"),
            column("kept", "Pins free", "bytes", (line) => line.kept,
                { sum: true }),
            column("bytes", "By blocks of", "bytes", (line) => line.bytes, { sum: true }),
            column("segments", "Segments", "count", (line) => line.segments, { sum: true }),
            categoryColumn(context, "Category", (line) => line.pin.klass.category),
            column("freed", "Freed", "text",
                ({ pin }) => (model.end[pin.allocation] === NEVER ? "never" : `step ${model.stepOf(model.end[pin.allocation])}`))
        ]
    });
    root.append(h("div", { class: "vp-two" }, h("div", {}, summary, table.element), details.element));

    function update(state) {
        const instant = instantOf(state, model);
        if (instant === at)
            return;
        at = instant;
        const found = mapAt(model, at), release = model.device.cache_release,
              share = (bytes) => `${format.bytes(bytes)} (${format.percent(bytes, found.reserved)})`;
        clear(summary);
        if (!found.segments.length)
            summary.append(emptyState("No memory is reserved by a framework at this moment."));
        else
            summary.append(h("p", { class: "vp-heading" }, h("strong", {}, share(found.holeBytes)),
                               ` of ${format.bytes(found.reserved)} reserved are free ${momentText(context, at)}`),
                factList([
                    ["In blocks", format.bytes(found.blockBytes)],
                    ["In empty segments", `${format.bytes(found.emptyBytes)}${release ? `; ${release} would return them` : ""}`],
                    ["Between blocks", `${format.bytes(found.keptBytes)}, pinned by blocks in use`],
                    ["Largest hole", format.bytes(found.largestHole)]
                ]));
        for (const advice of model.device.frag_advice || [])
            summary.append(h("p", {}, h("strong", {}, "At the peak: "), advice));
        table.set(pinsOf(found));
    }
    return { update };
}
