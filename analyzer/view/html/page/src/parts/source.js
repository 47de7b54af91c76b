// The hottest files and lines at the instant, with the source that the page holds.
import { h, name, clear, swatch } from "../dom.js";
import { instantOf, momentText, sourcesOf, categoryLabel } from "./view.js";
import { aliveByClass, mostly } from "./groups.js";
import { column, createTable } from "./table.js";
import { emptyState } from "./findings.js";
import { greatest } from "../greatest.js";
import { made } from "../made.js";

/** [{file, bytes, blocks, lines: Map(line -> {line, bytes, blocks, categories, functions})}…], those with most first; file "" =
 * no line known. Sums to what is in use. */
export function byFile(entries) {
    const files = new Map();
    for (const { klass, bytes, blocks } of entries) {
        const path = klass.place?.file || "", number = path ? klass.place.line : 0;
        const file = made(files, path, () => ({ file: path, bytes: 0, blocks: 0, lines: new Map() }));
        const line = made(file.lines, number, () => ({ line: number, bytes: 0, blocks: 0, categories: new Map(), functions: new Set() }));
        for (const one of [file, line]) {
            one.bytes += bytes;
            one.blocks += blocks;
        }
        line.categories.set(klass.category, (line.categories.get(klass.category) || 0) + bytes);
        if (klass.place?.function)
            line.functions.add(klass.place.function);
    }
    return [...files.values()].sort((a, b) => b.bytes - a.bytes);
}

/** The lines of a file that are shown: those of its source that the page holds, and those with memory. */
export function listing(names, file) {
    const source = sourcesOf(names, file.file) || {},
          numbers = new Set([...Object.keys(source).map(Number), ...file.lines.keys()]);
    return [...numbers].sort((a, b) => a - b).map((number) => ({
        number,
        text: Object.prototype.hasOwnProperty.call(source, number) ? source[number] : null,
        held: file.lines.get(number) || null
    }));
}

export function create(root, context) {
    const { model, format } = context;
    let at = null, files = [], chosen = null, whole = 0;
    const heading = h("p", { class: "vp-heading" }),
          code = h("div", { class: "vp-code", role: "region", tabindex: "0", "aria-label": "Source" });
    const table = createTable({
        context,
        caption: "Files",
        sort: ["bytes", true],
        key: (file) => file.file,
        choose: (file) => show(file),
        empty: "Nothing is in use at this moment.",
        columns: [
            column("file", "File", "name", (file) => file.file || "no line known"),
            column("bytes", "Bytes", "bytes", (file) => file.bytes, { sum: true }),
            column("share", "of in use", "share", (file) => (whole ? file.bytes / whole : null), { sum: true }),
            column("lines", "Lines", "count", (file) => file.lines.size),
            column("blocks", "Blocks", "count", (file) => file.blocks, { sum: true })
        ]
    });
    root.append(heading, h("div", { class: "vp-two" }, table.element, code));

    function show(file) {
        chosen = file?.file ?? null;
        table.select(chosen);
        clear(code);
        if (!file)
            return;
        if (!file.file)
            return void code.append(emptyState(
                "No line known: no stack was recorded, or it has no line of user code."));
        const most = greatest([...file.lines.values()].map((line) => line.bytes)),
              lines = listing(context.names, file);
        code.append(h("h3", {}, name(file.file)));
        if (!lines.some((line) => line.text !== null))
            code.append(h("p", { class: "vp-muted" },
                "Source not included: the file was missing when the page was written, or newer than the trace."));
        code.append(
            h("table", { class: "vp-listing" }, h("caption", { class: "hidden" }, "Source with bytes by line"),
                h("thead", {}, h("tr", {}, ["Bytes", "Blocks", "Category", "Line",
                    "Source"].map((title) => h("th", { scope: "col" }, title)))),
                h("tbody", {},
                    lines.map((line, i) => [i && line.number > lines[i - 1].number + 1
                                      ? h("tr", { class: "vp-gap" }, h("td", { colspan: 5 }, "⋮"))
                                      : null,
                                  lineRow(line, most)]))));
        const hottest = code.querySelector(".vp-hottest"); // scrolled to within its box: the page itself stays
        if (hottest)
            code.scrollTop +=
                hottest.getBoundingClientRect().top - code.getBoundingClientRect().top - code.clientHeight / 2;
        return undefined;
    }

    function lineRow({ number, text, held }, most) {
        const category = held ? mostly(held.categories) : "";
        return h("tr", {
            class: held ? (held.bytes === most ? "vp-held vp-hottest" : "vp-held") : null,
            style: held ? `--share:${(100 * held.bytes) / Math.max(1, most)}%` : null
        },
            h("td", { class: "vp-number vp-heat", title: held ? format.exact(held.bytes) : null },
                held ? format.bytes(held.bytes) : ""),
            h("td", { class: "vp-number" }, held ? format.count(held.blocks) : ""),
            h("td", { class: "vp-nowrap" }, held ? [swatch(category), categoryLabel(model, category)] : ""),
            h("th", { scope: "row", class: "vp-number" }, String(number)),
            h("td", {},
                text === null
                    ? h("span", { class: "vp-muted" }, held ? [...held.functions].map((one) => name(one)) : "")
                    : h("code", {}, name(text))));
    }

    function update(state) {
        const instant = instantOf(state, model);
        if (instant === at)
            return;
        at = instant;
        files = byFile(aliveByClass(model, at));
        whole = files.reduce((sum, file) => sum + file.bytes, 0);
        heading.textContent = `${format.bytes(whole)} in use ${momentText(context, at)}, by file and line`;
        table.set(files);
        show(files.find((file) => file.file === chosen) || files.find((file) => file.file) || files[0]);
    }
    return { update };
}
