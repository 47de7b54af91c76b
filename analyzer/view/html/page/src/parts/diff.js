// The comparison of two traces, as `vramtrace diff --json` has it: the peaks of their steps, and what grew and what shrank, as a
// picture and as a table.
import { h, name, select, visible } from "../dom.js";
import { categoryLabel, deviceOf, differenceOf, openRun } from "./view.js";
import { documentPart, emptyState } from "./findings.js";
import { eachText, foldModules, foldNames, joined } from "./fold.js";
import { link, WAYS as WHO } from "./groups.js";
import { stepsChart } from "./diff_steps.js";
import { bytesColumns, categoryColumn, column, createTable } from "./table.js";
import { createTreemap } from "./treemap.js";

// The list in the document, what it is by, and the way of "Who" that shows the same: blocks are of one run only.
const WAYS = WHO.filter(([id]) => id !== "block")
    .map(([id, title]) => [id === "category" ? "categories" : `${id}s`, title, id === "kind" ? "class" : id]);

/** A list of the document as nodes (fold.js): what grew, what shrank, and what is as large but of other categories; what is alike as one. */
export function changesOf(list, way) {
    const nodes = list.map((row, i) => ({
        key: `${i} ${row.name}`, name: row.name, bytes: Math.abs(row.change_bytes), a: row.a_bytes, b: row.b_bytes, change: row.change_bytes,
        kind: row.kind, categories: new Map(Object.entries(row.categories || {})), row
    }));
    const fold = { modules: foldModules, owners: foldNames }[way] ?? ((some) => some);
    return [1, -1, 0].map((sign) => fold(nodes.filter(({ change }) => Math.sign(change) === sign), `in ${sign}`));
}

function treeOf(grown, shrunk, way) {
    const sides = [["Grown", grown], ["Shrunk", shrunk]].filter(([, nodes]) => nodes.length)
        .map(([key, nodes]) => joined(nodes, { key: `${way} ${key}`, name: key, level: "side" }));
    const root = sides.length ? joined(sides, { key: "", name: "", level: "" }) : { key: "", name: "", bytes: 0 };
    link(root);
    return root;
}

function columns(context, way) {
    const list = [
        way === "categories"
            ? categoryColumn(context, "Category", (row) => row.name)
            : column("name", WAYS.find(([id]) => id === way)[1].replace(/^./, (letter) => letter.toUpperCase()), "name", (row) => titleOf(row, way)),
        ...bytesColumns(differenceOf(0, 1)),
        column("kind", "How", "text", (row) => (row.kind === "grown" || row.kind === "shrunk" || row.children ? "" : row.kind))
    ];
    if (way === "lines")
        list.push(column("phase", "Allocated in", "text", (row) => row.row.phase));
    if (way !== "categories")
        list.push(column("of", "Of", "text", ({ categories }) =>
            [...categories].map(([one, bytes]) => `${categoryLabel(context.model, one)} ${context.format.change(bytes)}`).join(", ")));
    return list;
}

function titleOf({ name: title, itself, children, row }, way) {
    if (!title)
        return way === "modules" || way === "kinds" ? "outside any module" : "no name known";
    if (children)
        return title;
    const moved = row.a_line && row.b_line && row.a_line !== row.b_line;
    return `${title}${itself ? " itself" : ""}${row.members > 1 ? ` (${row.members})` : ""}${moved ? ` (was line ${row.a_line})` : ""}`;
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

/* The picture and the table of one device. */
function deviceView(context, device) {
    const { format } = context;
    const hint = h("p", { class: "vp-hover", "aria-hidden": "true" });
    let way = WAYS.map(([id]) => id).find((id) => ["modules", "lines"].includes(id) && device[id]?.some((row) => row.name)) ?? "categories";
    const titled = (node) => node.level === "side" || !node.parent ? node.name || "all changes"
        : way === "categories" ? categoryLabel(context.model, node.name) : titleOf(node, way);
    const map = createTreemap({
        context, title: titled, sizeOf: (node) => node.bytes, sign: (node) => (node.change > 0 ? "vp-grown" : "vp-shrunk"),
        empty: "Nothing grew or shrank.", chosen: (node) => node.children?.size || openClass(node),
        hover(node) {
            hint.textContent = node ? visible(`${titled(node)}: ${node.a === undefined ? "" : `A ${format.bytes(node.a)}, B ${format.bytes(node.b)}, `}${
                format.change(node.change)}${node.count ? `, ${eachText(format, node)}` : ""}`) : "";
        }
    });
    const table = createTable({
        context, caption: "Differences", columns: columns(context, way), key: (row) => row.key, empty: "No difference.",
        choose(row) {
            if (!row.children)
                openClass(row);
        }
    });

    /* In the run that has more of it. The same line may have had another number there; "model.*" has no row of its own: it is searched. */
    function openClass({ name: title, change, row }) {
        const run = change < 0 ? 0 : 1, there = run ? title : title.replace(`:${row.b_line}`, `:${row.a_line}`);
        openRun(context.store, {
            trace: run, device: device.index, filter: row.members > 1 && title.includes("*") ? title.replace("*", " ") : "",
            selection: { kind: WAYS.find(([id]) => id === way)[2], key: row.phase ? `${there} · ${row.phase}` : there }
        });
    }

    function show() {
        const changes = changesOf(device[way] || [], way);
        map.show(treeOf(changes[0], changes[1], way));
        table.columns(columns(context, way), [null, false]);
        table.set(changes.flat().sort((one, other) => other.bytes - one.bytes), `GPU ${device.index}, by ${WAYS.find(([id]) => id === way)[1]}; choose a row to see it in its run`);
    }

    table.element.querySelector(".vp-tools").prepend(select("by", WAYS, way, (value) => {
        way = value;
        show();
    }));
    show();
    return [h("div", { class: "vp-left" }, h("div", { class: "vp-bar" }, map.crumbs), map.element, hint), h("div", { class: "vp-right" }, table.element)];
}

function draw(root, { document, steps }, context) {
    const { devices = [] } = document, one = deviceOf(document, context.model) ?? devices[0];
    const side = (letter, run) => [h("strong", {}, letter), " ", name(run?.trace?.file ?? "", "vp-short"), h("span", { class: "vp-muted" }, ` at ${run?.moment ?? ""} · `)];
    const box = h("div", { class: "vp-diff" }), heading = h("p", { class: "vp-heading" }, side("A", document.a), side("B", document.b));
    root.append(box);
    if (!one)
        return void box.append(heading, emptyState("Neither trace contains GPU allocations."));
    const runs = steps.map((list) => list.filter(({ device, step }) => device === one.index && step > 0));
    const chart = runs.some((list) => list.length) ? stepsChart(context, runs) : null;
    heading.append(`GPU ${one.index}: ${verdict(context.format, one)}`);
    box.append(heading, chart ? chart.element : emptyState("Neither run has steps."), ...deviceView(context, one));
    return { update: () => chart?.redraw(), destroy: () => chart?.destroy() };
}

async function read(model) {
    const document = await model.diff();
    return document && { document, steps: await Promise.all([0, 1].map((index) => model.data.stepsOf(index))) };
}

export const create = documentPart(read, "This page has no comparison: it was not written with --diff.", draw);
