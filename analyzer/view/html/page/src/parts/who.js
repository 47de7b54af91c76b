// Who holds the memory at an instant: a tree by category, module, owner and line, and a table beside it.
import { h, name, clear, toggle, select, visible } from "../dom.js";
import { instantOf, momentText, categoryLabel, bytesOf, differenceOf, UNNAMED } from "./view.js";
import { WAYS, aliveByClass, groupBy, blockRows, compare, mostly, treeOf, within, stackName } from "./groups.js";
import { eachText, foldModules, foldNames } from "./fold.js";
import { bytesColumns, categoryColumn, column, createTable } from "./table.js";
import { createTreemap } from "./treemap.js";
import { createDetails } from "./details.js";

export function titleOf(context, node) {
    if (!node.level)
        return "all in use";
    const title = node.level === "category" ? categoryLabel(context.model, node.name) : node.name || UNNAMED[node.level];
    return node.itself ? `${title} itself` : title;
}

export function create(root, context) {
    const { store, model, format } = context;
    let by = "owner", at = null, second = null, difference = null, entriesA = [], entriesB = null, tree = null;

    const heading = h("p", { class: "vp-heading" });
    const hint = h("p", { class: "vp-hover", "aria-hidden": "true" });
    const details = createDetails(context, "Choose a row or a tile to see its stack and source line.", (model.device.evidence ?? []).map((text) => `At the peak: ${text}`));
    const map = createTreemap({
        context,
        title: (node) => titleOf(context, node),
        sizeOf: (node) => node.size,
        shares: true,
        empty: "Nothing is in use at this moment.",
        chosen: (node) => node.entry && choice(node.entry, null, node.level, node.name, difference ? { ...node, a: node.bytes } : node),
        hover,
        narrowed: () => refreshTable(false)
    });
    const table = createTable({
        context,
        caption: "In use",
        columns: columns(),
        sort: ["bytes", true],
        key: (row) => row.key,
        choose: pickRow,
        search: false, // the page's own box
        empty: "Nothing is in use at this moment."
    });
    const aside = h("p", { class: "vp-muted vp-aside" });

    const ways = select("by", WAYS, by, (value) => {
        by = value;
        refreshTable(true);
    });
    table.element.querySelector(".vp-tools").prepend(ways);
    root.append(h("div", { class: "vp-who" },
        h("div", { class: "vp-left" },
            h("div", { class: "vp-bar" }, map.crumbs, toggle("Picture", [["treemap", "Treemap"], ["icicle", "Icicle"]], "treemap", map.draw)),
            map.element, hint),
        h("div", { class: "vp-right" }, heading, table.element, aside), details.element));

    function columns() {
        const whole = wholeBytes();
        const title = WAYS.find(([id]) => id === by)[1].replace(/^./, (letter) => letter.toUpperCase());
        const list = [by === "category" ? categoryColumn(context, title, (row) => row.name)
            : column("name", title, "name", (row) => (row.itself ? `${row.name} itself` : row.name || UNNAMED[by] || ""),
                { cell: { owner: ownerCell, line: lineCell }[by] ?? null }),
        ...bytesColumns(difference, at === model.peak ? "of peak" : "of in use", (row) => (whole ? row.bytes / whole : null))];
        if (by !== "block")
            list.push(column("blocks", "Blocks", "count", (row) => row.blocks || row.blocksB));
        if (by !== "category")
            list.push(categoryColumn(
                context, by === "block" || by === "owner" ? "Category" : "Mostly", (row) => mostly(row.categories)));
        if (by === "block")
            list.push(column("phase", "Allocated in", "text", (row) => row.entry.klass.phase),
                column("step", "Step", "count", (row) => model.stepOf(model.begin[row.entry.allocation])),
                column("line", "Line", "text", (row) => row.entry.klass.place?.name));
        return list;
    }

    function ownerCell(row) {
        const what = [row.part?.dtype, row.part?.shape].filter(Boolean).join(" ");
        return h("span", {}, name(row.name || UNNAMED.owner), what ? h("span", { class: "vp-muted" }, " ", name(what)) : null);
    }

    function lineCell(row) {
        const [place, ...called] = visible(format.shortPlace(row.name)).split(" ");
        return h("span", { title: visible(row.name) }, place || UNNAMED.line,
            h("span", { class: "vp-muted" }, ` ${row.entry.klass.phase} `), called.join(" "));
    }

    function wholeBytes() {
        return entriesA.reduce((sum, entry) => sum + entry.bytes, 0);
    }

    function rowsAt(change, side) {
        const entries = within(map.top(), side);
        if (by !== "block")
            return groupBy(entries, by);
        const keep = new Set(entries.map((entry) => entry.index));
        return blockRows(model, change).filter((row) => keep.has(row.entry.index));
    }

    function refreshTable(newWay) {
        const compared = second !== null, fold = { module: foldModules, owner: foldNames }[by] ?? ((rows) => rows);
        const rows = fold(compared ? compare(rowsAt(at, 0), rowsAt(second, 1)) : rowsAt(at, 0));
        if (compared)
            rows.sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
        table.columns(columns(), newWay ? (compared ? [null, false] : ["bytes", true]) : null);
        table.set(rows, `In use by ${WAYS.find(([id]) => id === by)[1]}, ${momentText(context, at)}`);
    }

    function pickRow(row) {
        table.select(row.key);
        choice(row.entry, by === "block" ? row.entry.allocation : null, by === "kind" ? "class" : by, row.name, groupOf(row));
    }

    const groupOf = (row) => (by === "block" ? null : row);

    function choice(entry, allocation, kind, key, group) {
        details.show(entry, allocation, group);
        store.set({ selection: allocation === null ? { kind, key } : { kind: "block", key: String(allocation) } });
    }

    function hover(node) {
        store.set({ highlight: node && node.category ? node.category : null });
        if (!node)
            return void (hint.textContent = "");
        const change = !difference ? "" : ` · ${difference.title}: ${format.change(difference.sign * (node.b - node.bytes))}`;
        clear(hint).append(h("span", {}, name(titleOf(context, node), "vp-short"),
            ` ${format.bytes(node.bytes)} (${format.exact(node.bytes)}) · ${format.percent(node.bytes, tree.bytes)} · ${
                format.count(node.blocks)} block${node.blocks === 1 ? "" : "s"}${node.count ? ` · ${eachText(format, node)}` : ""}${change}`,
            node.entry && !node.count ? [" · ", name(stackName(node.entry.klass.stack))] : ""));
        return undefined;
    }

    function drawHeading() {
        const state = model.state(at), used = wholeBytes();
        clear(heading).append(h("strong", {}, format.bytes(used)), ` in use ${momentText(context, at)}`);
        if (second !== null) {
            const other = entriesB.reduce((sum, entry) => sum + entry.bytes, 0);
            heading.append(`; B: ${format.bytes(other)} ${momentText(context, second)}, `,
                `${difference.title}: `, h("strong", {}, format.change(difference.sign * (other - used))));
        }
        const unused = ["cached", "context"].map((category) => [category, bytesOf(model, state, category)]).filter(([,
            bytes]) => bytes);
        aside.textContent = unused.length
            ? `Not in the table: ${
                  unused.map(([category, bytes]) => `${format.bytes(bytes)} ${categoryLabel(context.model, category)}`)
                      .join(", ")}.`
            : "";
    }

    function update(state) {
        const instant = instantOf(state, model), other = state.pinB;
        if (instant !== at || other !== second || !tree) {
            const newly = (other === null) !== (second === null) || !tree;
            [at, second, difference] = [instant, other, differenceOf(instant, other)];
            entriesA = aliveByClass(model, at);
            entriesB = second === null ? null : aliveByClass(model, second);
            tree = treeOf(entriesA, entriesB);
            drawHeading();
            map.show(tree, difference?.sign);
            refreshTable(newly);
        }
        if (typeof state.filter === "string" && state.filter !== table.searchBox.value)
            table.search(state.filter);
    }

    // What a link had chosen.
    function restore({ selection }) {
        const way = selection && (selection.kind === "class" ? "kind" : selection.kind);
        if (!WAYS.some(([id]) => id === way))
            return;
        by = ways.querySelector("select").value = way;
        refreshTable(true);
        // A comparison leaves out the numbers of first siblings, and tells lines apart by their phases.
        const named = ({ name: title, entry }) => [title, title.replace(/#1(?= > |$)/g, ""), `${title} · ${entry.klass.phase}`].includes(selection.key);
        const row = table.find((one) => (by === "block" ? String(one.entry.allocation) === selection.key : named(one)));
        if (row) {
            table.select(row.key);
            details.show(row.entry, by === "block" ? row.entry.allocation : null, groupOf(row));
        }
    }

    update(store.get());
    restore(store.get());
    return { update };
}
