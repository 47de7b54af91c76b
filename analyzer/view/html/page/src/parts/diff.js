// The comparison of two traces, as `vramtrace diff --json` has it.
import { h, name, clear, select, swatch } from "../dom.js";
import { categoryLabel } from "./view.js";
import { documentPart, emptyState } from "./findings.js";
import { column, createTable } from "./table.js";

const WAYS = [
    ["categories", "category"], ["modules", "module"], ["kinds", "module class"], ["owners", "owner"],
    ["lines", "line"], ["stacks", "stack"], ["ops", "operator"]
];

function columns(context, way) {
    const category = (row) => categoryLabel(context.model, row.name);
    const list = [
        way === "categories"
            ? column("name", "Category", "text", category,
                  { cell: (row) => h("span", {}, swatch(row.name), category(row)) })
            : {
                  id: "name",
                  title: WAYS.find(([id]) => id === way)[1].replace(/^./, (letter) => letter.toUpperCase()),
                  kind: "name",
                  value: (row) =>
                      `${row.name || (way === "modules" || way === "kinds" ? "outside any module" : "no name known")}${
                          row.members > 1 ? ` (${row.members})` : ""}${
                          row.a_line && row.b_line && row.a_line !== row.b_line ? ` (was line ${row.a_line})` : ""}`
              },
        column("a", "A", "bytes", (row) => row.a_bytes, { sum: true }),
        column("b", "B", "bytes", (row) => row.b_bytes, { sum: true }),
        column("change", "B − A", "change", (row) => row.change_bytes, { sum: true }),
        column("kind", "How", "text", (row) => (row.kind === "grown" || row.kind === "shrunk" ? "" : row.kind))
    ];
    if (way !== "categories")
        list.push(column("of", "Of", "text",
            (row) => Object.entries(row.categories || {})
                         .map(([one, bytes]) => `${categoryLabel(context.model, one)} ${context.format.change(bytes)}`)
                         .join(", ")));
    return list;
}

function verdict(format, device) {
    const a = device.a?.used_bytes ?? 0, b = device.b?.used_bytes ?? 0;
    if (!device.differs)
        return `no difference, ${format.bytes(a)} in use.`;
    if (a === b)
        return `${format.bytes(a)} in use in both, but differently made up.`;
    return `${format.bytes(a)} in use in A, ${format.bytes(b)} in B: ${format.change(b - a)}${
        a ? `, ${b > a ? "+" : "−"}${format.percent(Math.abs(b - a), a)}` : ""}.`;
}

function deviceSection(context, device) {
    const box = h("div"), table = createTable({
        context,
        caption: `Differences on GPU ${device.index}`,
        columns: columns(context, "lines"),
        key: (row) => row.name,
        empty: "No difference."
    });
    let way = WAYS.some(([id]) => id === "lines" && device[id]?.length) ? "lines" : "categories";
    const show = () => {
        table.columns(columns(context, way), [null, false]);
        table.set(device[way] || [], `Differences on GPU ${device.index}, by ${WAYS.find(([id]) => id === way)[1]}`);
    };
    table.element.querySelector(".vp-tools").prepend(select("by", WAYS, way, (value) => {
        way = value;
        show();
    }));
    show();
    clear(box).append(h("h3", {}, `GPU ${device.index}`, device.name ? [" ", name(device.name)] : null),
        h("p", {}, verdict(context.format, device)), table.element);
    return box;
}

function draw(root, document, context) {
    const side = (letter, one) => h("p", {}, h("strong", {}, letter), " ", name(one?.trace?.file ?? ""),
        h("span", { class: "vp-muted" }, ` at ${one?.moment ?? ""}`));
    root.append(side("A", document.a), side("B", document.b));
    if (!document.devices?.length)
        root.append(emptyState("Neither trace contains GPU allocations."));
    root.append(...(document.devices || []).map((device) => deviceSection(context, device)));
}

export const part = documentPart({
    id: "diff",
    title: "Diff",
    read: (model) => model.diff(),
    absent: "This page has no comparison: it was not written with --diff.",
    draw
});
