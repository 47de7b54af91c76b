// A table that people can sort, search, copy and read with a screen reader, of any length: rows beyond a
// page are summed in a row of their own until they are asked for, so nothing is ever left out.
//
// Columns are made by column().
import { h, name, clear, visible, roving, swatch } from "../dom.js";
import { explained } from "../terms.js";
import { eachText } from "./fold.js";
import { categoryLabel, wordsOf } from "./view.js";

const PAGE = 200, INDENT = 14;
const NUMBERS = new Set(["bytes", "change", "count", "share", "duration"]);

/** A column: kind "name"|"text"|"bytes"|"change"|"count"|"share"|"duration"; value(row) is what is sorted, searched and copied.
 * more: { cell(row) -> Node instead of the value's text, sum: true (rows that are not shown are summed),
 *         order(row): what is sorted instead of the value } */
export function column(id, title, kind, value, more) {
    return { id, title, kind, value, ...more };
}

/** A column of categories, each with its colour. */
export function categoryColumn(context, title, categoryOf) {
    const label = (row) => categoryLabel(context.model, categoryOf(row));
    return column("category", title, "text", label,
        { cell: (row) => h("span", { class: "vp-nowrap", ...explained(label(row)) }, swatch(categoryOf(row)), label(row)) });
}

function textOf(format, kind, value) {
    if (value === null || value === undefined || value === "")
        return "";
    return kind === "share" ? format.percent(value, 1) : NUMBERS.has(kind) ? format[kind](value) : String(value);
}

/** Orders by a column; what is not known is last either way, equals keep their order. */
export function sortRows(rows, column, descending) {
    const values = rows.map((row, i) => ({ row, i, value: (column.order ?? column.value)(row) })), sign = descending ? -1 : 1;
    const known = (value) => value !== null && value !== undefined && value !== "";
    values.sort((a, b) => {
        if (!known(a.value) || !known(b.value))
            return Number(known(b.value)) - Number(known(a.value)) || a.i - b.i;
        return sign * compareValues(a.value, b.value) || a.i - b.i;
    });
    return values.map(({ row }) => row);
}
const collator = new Intl.Collator("en", { numeric: true });
const compareValues = (a, b) => (typeof a === "string" ? compareText(a, b) : a - b);
const compareText = (a, b) => collator.compare(a.slice(0, 200), b.slice(0, 200)) || (a < b ? -1 : a > b ? 1 : 0);

/** Rows in which each word of the search is in some text column. */
export function searchRows(rows, columns, text) {
    const words = wordsOf(text);
    const texts = columns.filter((column) => !NUMBERS.has(column.kind));
    if (!words.length)
        return rows;
    return rows.filter((row) => {
        const all = texts.map((column) => column.value(row) ?? "").join("\n").toLowerCase();
        return words.every((word) => all.includes(word));
    });
}

/** Tab-separated values: exact numbers, no tab or line break within a cell, nothing that a spreadsheet takes for a formula. */
export function toTsv(rows, columns) {
    const cell = (value) => {
        if (typeof value === "number")
            return String(value);
        const text = visible(value ?? "");
        return /^[=+\-@]/.test(text) ? `'${text}` : text;
    };
    const unit = { bytes: " (bytes)", change: " (bytes)", duration: " (ns)" };
    return [
        columns.map((column) => cell(column.title + (unit[column.kind] || ""))),
        ...rows.map((row) => columns.map((column) => cell(column.value(row))))
    ].map((cells) => cells.join("\t"))
               .join("\n") +
        "\n";
}

/* Below "layers.3" its part "layers.3.mlp" is ".mlp". */
function nameWithin(text, container) {
    const shown = name(text), rest = container?.name && text.startsWith(container.name) ? text.slice(container.name.length).trim() : "";
    if (rest)
        shown.textContent = visible(rest);
    return shown;
}

async function copy(text, announce) {
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        const area = h("textarea", { class: "hidden", value: text, "aria-hidden": "true" });
        document.body.append(area);
        area.select();
        const done = document.execCommand("copy");
        area.remove();
        if (!done)
            return announce("The browser did not allow copying");
    }
    return announce("Table copied");
}

function exact(format, column, value) {
    if (typeof value !== "number" || (column.kind !== "bytes" && column.kind !== "change"))
        return null;
    return `${column.kind === "change" && value > 0 ? "+" : ""}${format.exact(value)}`;
}

/** What rows have in bytes: at A, at B and what the later has more; of one moment, its share too. `difference`: differenceOf(), or null. */
export const bytesColumns = (difference, shareTitle, shareOf) => difference
    ? [column("bytes", "A", "bytes", (row) => row.a, { sum: true }), column("b", "B", "bytes", (row) => row.b, { sum: true }),
       column("change", difference.title, "change", (row) => difference.sign * row.change, { sum: true })]
    : [column("bytes", "Bytes", "bytes", (row) => row.bytes, { sum: true }), column("share", shareTitle, "share", shareOf, { sum: true })];

/** A table without a search. */
export function smallTable(options, rows) {
    const table = createTable({ ...options, search: false });
    table.set(rows);
    return table.element;
}

/** The rows that contain no others. */
export const leavesOf = (rows) => rows.flatMap((row) => (row.children?.size ? leavesOf([...row.children.values()]) : [row]));

/** options: { context, caption, columns, sort: [id, descending], search: true, empty: text, choose(row), key(row) }; a row with
 * `children` (fold.js) opens when it is chosen; a search goes through those within
 * -> { element, set(rows, caption), columns(list), select(key), find(wanted), search(text), searchBox } */
export function createTable(options) {
    const { context } = options, { format } = context;
    let columns = options.columns, rows = [], shown = [], limit = PAGE, chosen = null, query = "";
    let [sortId, descending] = options.sort || [null, false];
    const open = new Set(); // keys of rows whose children are shown

    const caption = h("caption", {}, options.caption);
    const head = h("thead"), body = h("tbody"), foot = h("tfoot"), more = h("div", { class: "vp-more" });
    const table = h("table", { class: "vp-table" }, caption, head, body, foot);
    const searchBox = h("input", {
        type: "search",
        placeholder: "Search",
        "aria-label": `Search in ${options.caption}`,
        autocomplete: "off",
        spellcheck: "false",
        oninput: () => {
            search(searchBox.value);
            context.announce(`${format.count(shown.length)} rows`);
        }
    });
    const tools = h("div", { class: "vp-tools" }, options.search === false ? null : searchBox,
        h("button", {
            type: "button",
            title: "Copy as tab-separated values, numbers exact",
            onclick: () => copy(toTsv(leavesOf(shown.filter(({ depth }) => !depth).map(({ row }) => row)), columns), context.announce)
        },
            "Copy"));
    const element = h("div", { class: "vp-tablebox" }, tools,
        h("div", { class: "vp-scroll", tabindex: "0", role: "region", "aria-label": options.caption }, table), more);
    roving(body, () => [...body.querySelectorAll("button.vp-row")]);

    function search(text) {
        query = text;
        if (searchBox.value !== text) // the cursor stays where it is
            searchBox.value = text;
        limit = PAGE;
        draw();
    }

    function drawHead() {
        clear(head).append(h("tr", {}, columns.map((column) => {
            const sorted = column.id === sortId;
            return h("th", {
                scope: "col",
                class: NUMBERS.has(column.kind) ? "vp-number" : null,
                "aria-sort": sorted ? (descending ? "descending" : "ascending") : "none"
            },
                h("button", { type: "button", class: "vp-sort", ...explained(column.title), onclick: () => sortBy(column) }, column.title,
                    h("span", { class: "vp-arrow", "aria-hidden": "true" }, sorted ? (descending ? " ▾" : " ▴") : "")));
        })));
    }

    function sortBy(column) {
        descending = column.id === sortId ? !descending : NUMBERS.has(column.kind);
        sortId = column.id;
        limit = PAGE; // those that are first now; to draw all again takes seconds where there are many
        draw();
        const at = columns.indexOf(column);
        head.querySelectorAll("button")[at]?.focus();
        context.announce(`Sorted by ${column.title}, ${descending ? "largest first" : "smallest first"}`);
    }

    function cellOf(column, { row, depth, inside: container }, first) {
        const value = column.value(row), text = textOf(format, column.kind, value);
        const content = column.cell    ? column.cell(row)
            : column.kind === "name"   ? nameWithin(text, container)
            : NUMBERS.has(column.kind) ? text
                                       : name(text);
        const inside = first && options.choose
            ? h("button", {
                type: "button", class: "vp-row", tabindex: "-1", style: depth ? `padding-left:${depth * INDENT}px` : null,
                "aria-expanded": row.children?.size ? String(open.has(row.key)) : null, onclick: () => choose(row)
            },
                  content, row.count ? h("span", { class: "vp-muted vp-each" }, eachText(format, row)) : null)
            : content;
        const attributes = {
            class: NUMBERS.has(column.kind)
                ? `vp-number${column.kind === "change" && value ? (value > 0 ? " vp-plus" : "") : ""}`
                : null,
            title: exact(format, column, value)
        };
        return first ? h("th", { scope: "row", ...attributes }, inside) : h("td", attributes, inside);
    }

    function choose(row) {
        if (row.children?.size) {
            if (!open.delete(row.key))
                open.add(row.key);
            draw();
            [...body.rows].find((line) => line.dataset.key === row.key)?.querySelector("button").focus();
        }
        options.choose(row);
    }

    function rowOf(placed, i) {
        const { row } = placed;
        const key = options.key ? options.key(row) : null;
        const line = h("tr",
            { "aria-selected": options.choose ? String(key !== null && key === chosen) : null, "data-key": key },
            columns.map((column, at) => cellOf(column, placed, at === 0)));
        if (options.choose) {
            line.addEventListener("click", (event) => {
                if (!event.target.closest("button"))
                    choose(row);
            });
            if (i === 0)
                line.querySelector("button.vp-row").tabIndex = 0;
        }
        return line;
    }

    function drawRest() {
        const rest = shown.slice(limit);
        clear(foot);
        clear(more);
        if (!rest.length)
            return;
        foot.append(h("tr", {},
            columns.map((column, at) => at === 0
                    ? h("th", { scope: "row" }, `… ${format.count(rest.length)} more`)
                    : h("td", { class: NUMBERS.has(column.kind) ? "vp-number" : null },
                          column.sum ? textOf(format, column.kind,
                                           rest.reduce((sum, { row, depth }) => sum + (depth ? 0 : column.value(row) || 0), 0))
                                     : ""))));
        for (const count of rest.length > PAGE ? [PAGE, 10 * PAGE] : [PAGE])
            more.append(h("button", { type: "button", onclick: () => showMore(count) }, `Show ${format.count(Math.min(count, rest.length))} more`));
    }

    function showMore(count) {
        const from = limit;
        limit += count;
        body.append(...shown.slice(from, limit).map((row, i) => rowOf(row, from + i)));
        drawRest();
        body.rows[from]?.querySelector("button")?.focus();
        context.announce(`${format.count(Math.min(limit, shown.length))} of ${format.count(shown.length)} rows`);
    }

    /* Rows in their order, each with how deep it lies in others and in which, and followed by what it contains where it is open. */
    function inOrder(list, depth = 0, inside = null) {
        const sorted = columns.find((one) => one.id === sortId);
        return (sorted ? sortRows(list, sorted, descending) : list)
            .flatMap((row) => [{ row, depth, inside }, ...(row.children && open.has(row.key) ? inOrder([...row.children.values()], depth + 1, row) : [])]);
    }

    function draw() {
        shown = inOrder(query.trim() ? searchRows(leavesOf(rows), columns, query) : rows);
        drawHead();
        clear(body).append(...shown.slice(0, limit).map(rowOf));
        if (!shown.length)
            body.append(h("tr", {},
                h("td", { colspan: columns.length, class: "vp-empty" },
                    rows.length ? `Nothing matches “${visible(query)}”.` : options.empty || "Nothing.")));
        drawRest();
    }

    return {
        element,
        searchBox,
        set(next, text) {
            rows = next;
            limit = PAGE;
            if (text)
                caption.textContent = text;
            draw();
        },
        columns(next, sort) {
            columns = next;
            if (sort)
                [sortId, descending] = sort;
            if (sortId && !columns.some((column) => column.id === sortId))
                [sortId, descending] = options.sort || [null, false];
        },
        select(key) {
            chosen = key;
            for (const line of body.rows)
                line.setAttribute("aria-selected", String(line.dataset.key === key && key !== null));
        },
        /** The row, also of those within others, which are opened. */
        find(wanted) {
            const within = (list) => {
                for (const row of list) {
                    const found = wanted(row) ? row : row.children && within(row.children.values());
                    if (found && found !== row)
                        open.add(row.key);
                    if (found)
                        return found;
                }
                return undefined;
            };
            const found = within(rows);
            draw();
            return found;
        },
        search,
    };
}
