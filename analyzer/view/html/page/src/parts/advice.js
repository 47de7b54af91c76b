// Advice: what would have lowered the peak, largest first.
import { h, name } from "../dom.js";
import { deviceOf, peakOf } from "./view.js";
import { documentPart, emptyState, showButton, card, factList } from "./findings.js";

function draw(root, document, context) {
    const { format, model } = context, advice = deviceOf(document, model)?.advice || [];
    if (!advice.length)
        return void root.append(emptyState("No suggestion would lower the peak by 1 % or more."));
    const event = model.eventOf(peakOf(model));
    root.append(h("p", { class: "vp-muted" },
                    "Estimated reduction of the peak. Savings do not add up."),
        ...advice.map((item) => card({
            heading: name(item.what, "vp-wrap"),
            figure: `−${format.bytes(item.bytes)} · ${format.percent(item.share, 1)}`,
            button: showButton(context, { event }, "Show peak")
        },
                          h("meter", {
                              class: "vp-meter",
                              min: 0,
                              max: 1,
                              value: Math.max(0, Math.min(1, item.share)),
                              "aria-label": "Share of the peak"
                          }),
                          factList([
                              ["Where", item.where ? name(item.where) : null],
                              ["Why", item.why ? name(item.why, "vp-wrap") : null],
                              ["How", item.how ? name(item.how, "vp-wrap") : null]
                          ]))));
    return undefined;
}

export const part = documentPart({
    id: "advice",
    title: "Advice",
    read: (model) => model.document("report"),
    absent: "This page does not include the report.",
    draw
});
