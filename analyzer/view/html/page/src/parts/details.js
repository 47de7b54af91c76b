// What is known of one selected thing: its class, and its block where one is meant.
import { h, name, clear, swatch, visible } from "../dom.js";
import { NEVER, frameName, isPython, sourcesOf, tellingFrames, categoryLabel } from "./view.js";
import { explained, phaseTerm } from "../terms.js";
import { shortPlace } from "../format.js";
import { factList } from "./findings.js";
import { blockEntry, ownersOf, stacksName } from "./groups.js";

/** Source lines around a line, as far as the page has them; null if it has none. */
export function sourceLines(names, file, line) {
    const lines = sourcesOf(names, file);
    if (!lines)
        return null;
    const numbers =
        Object.keys(lines).map(Number).filter((number) => Math.abs(number - line) <= 3).sort((a, b) => a - b);
    if (!numbers.length)
        return null;
    return h("ol", { class: "vp-source", tabindex: "0", "aria-label": "Source" },
        numbers.map((number) => h("li", { value: number, "aria-current": number === line ? "true" : null },
                        h("span", { class: "vp-lineno", "aria-hidden": "true" }, String(number)),
                        h("code", {}, name(lines[number])))));
}

export function stackList(frames, label, native = true) {
    if (!frames || !frames.length)
        return null;
    const telling = native || frames.some(isPython) ? tellingFrames(frames) : [], rest = frames.length - telling.length;
    const list = (some) => h("ol", { class: "vp-stack", "aria-label": label },
        some.map((frame) => h("li", { class: isPython(frame) ? null : "vp-native" }, name(frameName(frame)))));
    return h("section", {}, h("h4", {}, label), telling.length ? list(telling) : null,
        rest ? h("details", {}, h("summary", {}, `All ${frames.length} frames, with native ones`), list(frames)) : null);
}

/** A stack that is closed at first. */
export function foldedStack(frames) {
    return frames?.length ? h("details", {}, h("summary", {}, "Stack"), stackList(frames, "Stack, innermost first")) : null;
}

function facts(context, entry, allocation, group) {
    const { format, model } = context, { klass } = entry;
    const rows = [
        ["Category", h("span", explained(categoryLabel(model, klass.category), true), swatch(klass.category), categoryLabel(model, klass.category))],
        ["Evidence", h("span", explained(klass.evidence, true), klass.evidence)],
        ["Module", klass.module && name(klass.module_class ? `${klass.module} (${klass.module_class})` : klass.module)],
        ["Operator", klass.operator && name(klass.operator)], ["Allocated in", h("span", explained(phaseTerm(klass.phase), true), klass.phase)],
        ["Rule", klass.rule && name(klass.rule)], ["Kind", klass.kind]
    ];
    if (allocation !== null) {
        const begin = model.begin[allocation], end = model.end[allocation];
        rows.unshift(
            ["Block", `${format.bytes(model.bytes(allocation))} (${format.count(model.bytes(allocation))} bytes)`]);
        if (model.address(allocation))
            rows.push(["Address", h("code", {}, format.address(model.address(allocation)))]);
        rows.push(["Allocated", whenText(context, begin)], [
            "Freed",
            end === NEVER
                ? "not in this trace"
                : `${whenText(context, end)}: lived ${format.duration(model.timeOf(end) - model.timeOf(begin))}`
        ]);
    } else {
        rows.unshift([
            group?.a === undefined ? "In use" : `In use at ${group.a ? "A" : "B"}`,
            `${format.bytes(entry.bytes)} in ${format.count(entry.blocks)} block${entry.blocks === 1 ? "" : "s"}`
        ]);
    }
    return factList(rows);
}

function whenText(context, change) {
    const step = context.model.stepOf(change);
    return `at ${context.format.duration(context.model.timeOf(change))}${
        step ? `, step ${context.format.count(step)}`
             : ""} (event ${context.format.count(context.model.eventOf(change))})`;
}

function tensors(context, entry) {
    const parts = ownersOf(entry).filter((part) => part.name);
    if (!parts.length)
        return null;
    return h("section", {}, h("h4", {}, parts.length === 1 ? "Owner" : `${parts.length} owners`),
        h("ul", { class: "vp-owners" },
            parts.slice(0, 50).map(
                (part) => h("li", {}, name(part.name),
                    h("span", { class: "vp-muted" }, [part.role, part.dtype, part.shape].filter(Boolean).join(" ")),
                    h("span", { class: "vp-number" }, context.format.bytes(part.bytes)))),
            parts.length > 50
                ? h("li", { class: "vp-muted" },
                      `… ${parts.length - 50} more, ${
                          context.format.bytes(parts.slice(50).reduce((sum, part) => sum + part.bytes, 0))}`)
                : null));
}

/** A panel; show(entry, allocation, group) with an entry of groups.js, allocation null for all of its class; `group` {bytes, blocks}:
 * what was chosen, if the entry is only the largest part of it; of two moments also {a, b, blocksB}. showBlock(allocation) */
export function createDetails(context, hint, more = []) {
    const element = h("aside", { class: "vp-details", tabindex: "0", "aria-label": "Selection" });
    const empty = () => clear(element).append(...[hint, ...more].map((text) => h("p", { class: "vp-muted" }, visible(text))));
    empty();
    return {
        element,
        show(entry, allocation = null, group = null) {
            if (!entry)
                return empty();
            const { klass } = entry, { place } = klass;
            const parts = [
                h("h3", {}, name(klass.owner || (place && shortPlace(place.name)) || klass.kind)),
                group && (group.blocks || group.blocksB) > entry.blocks
                    ? h("p", { class: "vp-muted" }, `Of ${context.format.bytes((group.a ?? group.bytes) || group.b)} in ${
                          context.format.count(group.blocks || group.blocksB)} blocks, this is what made most:`)
                    : null,
                facts(context, entry, allocation, group), tensors(context, entry),
                place && place.name
                    ? h("section", {}, h("h4", {}, klass.forward?.length ? "Line of the forward operator" : "Line"),
                          h("p", {}, name(place.name),
                              place.file ? h("span", { class: "vp-muted" }, name(place.file)) : null),
                          sourceLines(context.names, place.file, place.line) ||
                              h("p", { class: "vp-muted" }, "Source not included."))
                    : null,
                klass.forward?.length && !klass.stack.some(isPython) ? h("p", {}, name(stacksName(klass))) : null,
                stackList(klass.stack, "Stack, innermost first", !klass.forward?.length) ||
                    h("p", { class: "vp-muted" }, "No stack was recorded."),
                klass.forward !== klass.stack ? stackList(klass.forward, "Stack of the forward operator") : null
            ];
            clear(element).append(...parts.filter(Boolean));
            element.scrollTop = 0;
            return undefined;
        },
        showBlock(allocation) {
            this.show(blockEntry(context.model, allocation), allocation);
        },
    };
}
