// Advice: what would have lowered the peak, largest first.
import { h, name } from "../dom.js";
import { explained } from "../terms.js";
import { deviceOf, peakOf } from "./view.js";
import { documentPart, emptyState, showButton, card, factList } from "./findings.js";

/* It has a base of its own: what is reserved. */
function unused(unused, format) {
    return card({
        heading: "Reserved but unused at the peak",
        figure: `${format.bytes(unused.bytes)} · ${format.percent(unused.share, 1)} of what is reserved`
    },
                factList([["How", unused.remedy ? name(`${unused.remedy} returns it to the GPU`) : null]]));
}

function draw(root, document, context) {
    const { format, model } = context, device = deviceOf(document, model), advice = device?.advice || [];
    if (!advice.length)
        root.append(emptyState("No suggestion would lower the peak by 1 % or more."));
    if (device?.reserved_unused)
        root.append(unused(device.reserved_unused, format));
    if (!advice.length)
        return;
    const event = model.eventOf(peakOf(model));
    root.append(h("p", { class: "vp-muted" },
                    "Estimated reduction of the peak. ", h("span", explained("savings", true), "Savings do not add up.")),
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
                              ["Where", item.where ? name(item.where, "vp-wrap") : null],
                              ["Why", item.why ? name(item.why, "vp-wrap") : null],
                              ["How", item.how ? name(item.how, "vp-wrap") : null]
                          ]))));
}

export const part = documentPart({
    id: "advice",
    title: "Advice",
    read: (model) => model.document("report"),
    absent: "This page does not include the report.",
    draw
});
