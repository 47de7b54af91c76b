// The hottest files and lines at the instant, with the source that the page holds.
import { h, name, clear, swatch, visible } from "../dom.js";
import { differenceOf, instantOf, momentText, sourcesOf, categoryLabel, UNNAMED } from "./view.js";
import { aliveByClass, compare, mostly } from "./groups.js";
import { bytesColumns, column, createTable } from "./table.js";
import { emptyState } from "./findings.js";
import { greatest } from "../greatest.js";
import { made } from "../made.js";

/** [{key, bytes, blocks, lines: Map(line -> {key, bytes, blocks, categories, functions})}…], those with most first; `key`: the file,
 * "" = no line known, or the line. Sums to what is in use. */
export function byFile(entries) {
    const files = new Map();
    for (const { klass, bytes, blocks } of entries) {
        const path = klass.place?.file || "", number = path ? klass.place.line : 0;
        const file = made(files, path, () => ({ key: path, bytes: 0, blocks: 0, lines: new Map() }));
        const line = made(file.lines, number, () => ({ key: number, bytes: 0, blocks: 0, categories: new Map(), functions: new Set() }));
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

/** The same of two moments, as compare() has it: those that differ most first. */
function comparedFiles(filesA, filesB) {
    const linesOf = (files, path) => [...(files.find(({ key }) => key === path)?.lines.values() ?? [])];
    return compare(filesA, filesB).map((file) =>
        ({ ...file, lines: new Map(compare(linesOf(filesA, file.key), linesOf(filesB, file.key)).map((line) => [line.key, line])) }));
}

/** The lines of a file that are shown: those of its source that the page holds, and those with memory. */
export function listing(names, file) {
    const source = sourcesOf(names, file.key) || {},
          numbers = new Set([...Object.keys(source).map(Number), ...file.lines.keys()]);
    return [...numbers].sort((a, b) => a - b).map((number) => ({
        number,
        text: Object.prototype.hasOwnProperty.call(source, number) ? source[number] : null,
        held: file.lines.get(number) || null
    }));
}

export function create(root, context) {
    const { model, format } = context;
    let at = null, second = null, difference = null, files = [], chosen = null, whole = 0;
    const heading = h("p", { class: "vp-heading" }),
          code = h("div", { class: "vp-code", role: "region", tabindex: "0", "aria-label": "Source" });
    const table = createTable({
        context,
        caption: "Files",
        sort: ["bytes", true],
        key: (file) => file.key,
        choose: (file) => show(file),
        empty: "Nothing is in use at this moment.",
        columns: columns()
    });
    root.append(heading, h("div", { class: "vp-two" }, table.element, code));

    function columns() {
        return [
            column("file", "File", "name", (file) => file.key || UNNAMED.line,
                { cell: (file) => h("span", { title: visible(file.key) }, visible(file.key.replace(/^.*\/(?=[^/]+\/)/, "")) || UNNAMED.line) }),
            ...bytesColumns(difference, "of in use", (file) => (whole ? file.bytes / whole : null)),
            column("lines", "Lines", "count", (file) => file.lines.size),
            column("blocks", "Blocks", "count", (file) => file.blocks || file.blocksB, { sum: true })
        ];
    }

    function show(file) {
        chosen = file?.key ?? null;
        table.select(chosen);
        clear(code);
        if (!file)
            return;
        if (!file.key)
            return void code.append(emptyState(
                "No line known: no stack was recorded, or it has no line of user code."));
        const most = greatest([...file.lines.values()].map(shownBytes)),
              lines = listing(context.names, file);
        code.append(h("h3", {}, name(file.key)));
        if (!lines.some((line) => line.text !== null))
            code.append(h("p", { class: "vp-muted" },
                "Source not included: the file was missing when the page was written, or newer than the trace."));
        code.append(
            h("table", { class: "vp-listing" }, h("caption", { class: "hidden" }, "Source with bytes by line"),
                h("thead", {}, h("tr", {}, [difference?.title ?? "Bytes", "Blocks", "Category", "Line",
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

    const shownBytes = (line) => Math.abs(line.change ?? line.bytes);

    function lineRow({ number, text, held }, most) {
        const category = held ? mostly(held.categories) : "";
        return h("tr", {
            class: held ? (shownBytes(held) === most ? "vp-held vp-hottest" : "vp-held") : null,
            style: held ? `--share:${(100 * shownBytes(held)) / Math.max(1, most)}%` : null
        },
            h("td", { class: "vp-number vp-heat", title: held ? format.exact(difference ? difference.sign * held.change : held.bytes) : null },
                held ? (difference ? format.change(difference.sign * held.change) : format.bytes(held.bytes)) : ""),
            h("td", { class: "vp-number" }, held ? format.count(held.blocks || held.blocksB) : ""),
            h("td", { class: "vp-nowrap" }, held ? [swatch(category), categoryLabel(model, category)] : ""),
            h("th", { scope: "row", class: "vp-number" }, String(number)),
            h("td", {},
                text === null
                    ? h("span", { class: "vp-muted" }, held ? [...held.functions].map((one) => name(one)) : "")
                    : h("code", {}, name(text))));
    }

    function update(state) {
        const instant = instantOf(state, model), other = state.pinB;
        if (instant === at && other === second)
            return;
        const newly = (other === null) !== (second === null) || at === null;
        [at, second, difference] = [instant, other, differenceOf(instant, other)];
        files = byFile(aliveByClass(model, at));
        whole = files.reduce((sum, file) => sum + file.bytes, 0);
        if (difference)
            files = comparedFiles(files, byFile(aliveByClass(model, second)));
        heading.textContent = `${format.bytes(whole)} in use ${momentText(context, at)}, by file and line${difference ? `; B: ${momentText(context, second)}` : ""}`;
        table.columns(columns(), newly ? (difference ? [null, false] : ["bytes", true]) : null);
        table.set(files);
        show(files.find((file) => file.key === chosen) || files.find((file) => file.key) || files[0]);
    }
    return { update };
}
