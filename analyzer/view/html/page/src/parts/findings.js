// What the tabs of findings share: a tab that shows one document, cards, and the way back to the timeline.
import { h, name, clear } from "../dom.js";
import { explained } from "../terms.js";
import { showInTimeline } from "./view.js";

/** How to create a part that shows what `read(model)` promises: `draw(root, document, context)` fills the emptied root,
 * and may return {update(state), destroy()}; `absent` says why there is nothing. */
export function documentPart(read, absent, draw) {
    return (root, context) => {
        let gone = false, view = null;
        root.append(h("p", { class: "vp-muted", role: "status" }, "Reading …"));
        Promise.resolve(read(context.model))
            .then((document) => {
                if (gone)
                    return;
                clear(root);
                if (document)
                    view = draw(root, document, context);
                else
                    root.append(emptyState(absent));
            })
            .catch((error) => {
                if (!gone)
                    clear(root).append(emptyState(`This part of the page cannot be read: ${error.message}`));
            });
        return {
            update: (state) => view?.update(state),
            destroy() {
                gone = true;
                view?.destroy();
            }
        };
    };
}

export function emptyState(text, more = null) {
    return h("p", { class: "vp-nothing" }, text, more && " ", more);
}

export function showButton(context, where, text = "Show in timeline") {
    return h("button", { type: "button", class: "vp-show", onclick: () => showInTimeline(context, where) }, text);
}

/** An article: heading with its figure, body, and a button that shows it in the timeline. */
export function card({heading, figure, tone = "", button = null}, ...body) {
    return h("article", { class: `vp-card${tone ? ` vp-${tone}` : ""}` },
        h("header", {}, h("h3", {}, heading), figure ? h("span", { class: "vp-figure" }, figure) : null,
            button || null),
        body);
}

/** [[term, value]…]; those without a value are left out. */
export function factList(rows) {
    return h("dl", { class: "vp-facts" },
        rows.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([term,
            value]) => [h("dt", explained(term, true), term), h("dd", {}, value)]));
}

export function codePlace(file, line, func) {
    if (!file)
        return null;
    const short = file.split("/").slice(-2).join("/");
    return h("span", { title: `${file}${line ? `:${line}` : ""}` },
        name(`${short}${line ? `:${line}` : ""}${func ? ` ${func}` : ""}`, "vp-code"));
}

export function plural(count, word) {
    return count === 1 ? word : `${word}s`;
}
