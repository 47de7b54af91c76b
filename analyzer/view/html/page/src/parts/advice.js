// Advice: what would have lowered the peak, largest first.
import { clear, h, name } from "../dom.js";
import { explained } from "../terms.js";
import { deviceOf } from "./view.js";
import { groupsOf, measured, whatIfText } from "../whatif.js";
import { documentPart, emptyState, showButton, card, factList } from "./findings.js";

/* It has a base of its own: what is reserved. */
function unused(unused, format) {
    return card({
        heading: "In empty segments at the peak",
        figure: `${format.bytes(unused.bytes)} · ${format.percent(unused.share, 1)} of what is reserved`
    },
                factList([["How", unused.remedy ? name(`${unused.remedy} returns it to the GPU`) : null]]));
}

const measuredText = (trial, format) => (trial ? `${format.change(-trial.saved)}, in a dry run with this change` : null);

/* Ticks of advice: the timeline shows what they would have left. */
function whatIf(advice, tried, context) {
    const { store, model } = context, said = h("p", { class: "vp-muted", role: "status" });
    const ticked = new Set(store.get().whatif?.groups.flat() ?? []);
    const say = (whatif) => {
        const shared = whatif?.groups.filter((group) => group.length > 1) ?? [];
        clear(said, whatif ? `In the timeline: ${whatIfText(model.whatif(whatif.groups), whatif, model)}.` : "",
            shared.length ? " Some of these would free the same memory: at each moment, only the one that saves most is counted." : "");
    };
    const tick = (number, on) => {
        ticked[on ? "add" : "delete"](number);
        const numbers = [...ticked].sort((a, b) => a - b);
        const whatif = numbers.length ? { groups: groupsOf(numbers, advice), trial: tried(numbers) } : null;
        store.set({ whatif });
        say(whatif);
    };
    say(store.get().whatif);
    const box = (number) => h("label", { class: "vp-tick" },
        h("input", { type: "checkbox", "aria-label": `What if: ${advice[number].what}`, checked: ticked.has(number),
            onchange: (event) => tick(number, event.target.checked) }), "What if");
    return { said, box };
}

function draw(root, document, context) {
    const { format, model } = context, device = deviceOf(document, model), advice = device?.advice || [];
    const failed = model.trace.failed_requests.some((one) => one.device === model.device.index);
    if (!advice.length)
        root.append(emptyState(`No suggestion would lower the peak by 1 % or more.${failed ? " What to do about the failed request is in the tab OOM." : ""}`,
            failed ? h("button", { type: "button", onclick: () => context.store.set({ tab: "oom" }) }, "Open OOM") : null));
    if (device?.reserved_unused)
        root.append(unused(device.reserved_unused, format));
    if (!advice.length)
        return;
    const peak = model.measure(model.walker.to(model.peak)); // a trial of another run says nothing of this one
    const tried = (numbers) => {
        const trial = measured(numbers, advice, model.data.head.trials);
        return trial?.peak === peak ? trial : null;
    };
    const event = model.eventOf(model.peak), { said, box } = whatIf(advice, tried, context);
    root.append(h("p", { class: "vp-muted" },
                    "Predicted reduction of the peak, ", h("span", explained("savings", true), "each by itself"),
                    ". Tick some: the timeline shows what would be left."), said,
        ...advice.map((item, number) => card({
            heading: name(item.what, "vp-wrap"),
            figure: `−${format.bytes(item.bytes)} · ${format.percent(item.share, 1)}`,
            button: [item.same ? box(number) : null, showButton(context, { event }, "Show peak")]
        },
                          h("meter", {
                              class: "vp-meter",
                              min: 0,
                              max: 1,
                              value: Math.max(0, Math.min(1, item.share)),
                              "aria-label": "Share of the peak"
                          }),
                          factList([
                              ["Measured", measuredText(tried([number]), format)],
                              ["Where", item.where ? name(item.where, "vp-wrap") : null],
                              ["Why", item.why ? name(item.why, "vp-wrap") : null],
                              ["How", item.how ? name(item.how, "vp-wrap") : null]
                          ]))));
}

export const create = documentPart((model) => model.document("report"), "This page does not include the report.", draw);
