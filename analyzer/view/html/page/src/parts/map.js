// The address map at an instant: a row for each segment, its blocks in place, holes between them.
import { h, name, clear, select, toggle, visible } from "../dom.js";
import { chosenBlock, instantOf, momentText, selectBlock } from "./view.js";
import { mapAt } from "./map_layout.js";
import { createRows } from "./canvas.js";
import { categoryColumn, column, createTable } from "./table.js";
import { createDetails } from "./details.js";
import { growth } from "./growth.js";
import { greatest } from "../greatest.js";

const ROW = 22, BAR = 15, LABEL = 96;
/** @type {[string, string, (a: any, b: any) => number][]} */
const ORDERS = [["address", "address", (a, b) => a.address - b.address], ["size", "size", (a, b) => b.bytes - a.bytes],
    ["free", "free bytes", (a, b) => b.holeBytes - a.holeBytes]];

const byAddress = { order: (row) => row.address }; // not as text: the digits a to f would sort as letters

export function create(root, context) {
    const { store, model, format, colours } = context;
    let found = null, at = null, rows = [], most = 0, order = "address", scale = "row", chosen = null, hovered = null;

    const heading = h("p", { class: "vp-heading" }), hint = h("p", { class: "vp-hover", "aria-hidden": "true" });
    const canvas = createRows(ROW, {
        role: "img",
        onpointermove: point,
        onpointerleave: () => {
            hovered = null;
            clear(hint);
            canvas.redraw();
        },
        onclick: choose
    }, { tabindex: "0", role: "region", "aria-label": "Address map" }, draw);
    const details = createDetails(context, "Choose a block to see what it is.");
    const table = createTable({
        context,
        caption: "Segments",
        sort: ["address", false],
        key: (segment) => String(segment.address),
        choose: chooseSegment,
        empty: "No memory is reserved by a framework at this moment.",
        columns: [
            column("address", "Address", "text", (segment) => format.address(segment.address), byAddress),
            column("bytes", "Size", "bytes", (segment) => segment.bytes, { sum: true }),
            column("used", "In blocks", "bytes", (segment) => segment.blockBytes, { sum: true }),
            column("free", "Free", "bytes", (segment) => segment.holeBytes, { sum: true }),
            column("hole", "Largest hole", "bytes", (segment) => segment.largestHole),
            column("blocks", "Blocks", "count", (segment) => segment.blocks.length, { sum: true }),
            column("pin", "Pinned by", "name",
                (segment) => (segment.pin
                        ? segment.pin.klass.owner || segment.pin.klass.place?.name || segment.pin.klass.category
                        : ""))
        ]
    });
    const blocks = createTable({
        context,
        caption: "Blocks of the chosen segment",
        sort: ["address", false],
        key: (block) => String(block.allocation),
        choose: (block) => chooseBlock(block),
        empty: "Choose a segment.",
        columns: [
            column("address", "Address", "text", (block) => format.address(block.address), byAddress),
            column("bytes", "Bytes", "bytes", (block) => block.bytes, { sum: true }),
            categoryColumn(context, "Category", (block) => block.klass.category),
            column("name", "Owner or line", "name", (block) => block.klass.owner || block.klass.place?.name || "")
        ]
    });
    const grown = growth(context);
    root.append(h("div", { class: "vp-map" },
        h("div", { class: "vp-left" },
            h("div", { class: "vp-bar" }, heading,
                select("order by", ORDERS, order,
                    (value) => {
                        order = value;
                        arrange();
                    }),
                toggle("Scale", [["row", "Fill rows"], ["same", "Same scale"]], scale,
                    (value) => {
                        scale = value;
                        canvas.redraw();
                    })),
            canvas.box, hint, h("h3", {}, "Driver memory over time"), grown.element),
        h("div", { class: "vp-right" }, table.element, blocks.element), details.element));

    function arrange() {
        rows = [...found.segments].sort(ORDERS.find(([id]) => id === order)[2]);
        most = greatest(rows.map((one) => one.bytes));
        canvas.rows(rows.length);
        canvas.redraw();
    }

    const perByteOf = (segment) => (canvas.width - LABEL - 8) / Math.max(1, scale === "same" ? most : segment.bytes);

    function draw(pen, width, height, top) {
        const first = Math.floor(top / ROW),
              until = Math.min(rows.length, first + Math.ceil(height / ROW) + 1);
        pen.font = "11px system-ui, sans-serif";
        pen.textBaseline = "middle";
        for (let i = first; i < until; i++) {
            const y = i * ROW - top + (ROW - BAR) / 2, segment = rows[i];
            pen.fillStyle = colours.css("--muted");
            pen.textAlign = "right";
            pen.fillText(format.bytes(segment.bytes), LABEL - 8, y + BAR / 2);
            drawSegment(pen, segment, y, perByteOf(segment));
        }
    }

    function drawSegment(pen, segment, y, perByte) {
        const width = Math.max(2, segment.bytes * perByte);
        pen.fillStyle = colours.css("--bg");
        pen.fillRect(LABEL, y, width, BAR);
        for (const block of segment.blocks) {
            const x = LABEL + (block.address - segment.address) * perByte, wide = block.bytes * perByte;
            pen.fillStyle = colours.of(block.klass.category);
            pen.fillRect(x, y, Math.max(wide > 2 ? wide - 0.5 : wide, 0.5), BAR);
        }
        pen.strokeStyle = colours.css("--line");
        pen.lineWidth = 1;
        pen.strokeRect(LABEL - 0.5, y - 0.5, width + 1, BAR + 1);
        outline(pen, segment, segment.holeBytes ? segment.pin : null, y, perByte, colours.css("--fg"), 1.5);
        for (const block of segment.blocks)
            if (block.allocation === chosen || block === hovered)
                outline(pen, segment, block, y, perByte, colours.css("--focus"), 3);
    }

    function outline(pen, segment, block, y, perByte, colour, thick) {
        if (!block)
            return;
        pen.strokeStyle = colour;
        pen.lineWidth = thick;
        pen.strokeRect(
            LABEL + (block.address - segment.address) * perByte, y - 0.5, Math.max(3, block.bytes * perByte), BAR + 1);
    }

    function hit(event) {
        const left = canvas.element.getBoundingClientRect().left, segment = rows[canvas.rowAt(event)];
        if (!segment)
            return null;
        const address = segment.address + (event.clientX - left - LABEL) / perByteOf(segment);
        if (address < segment.address || address >= segment.address + segment.bytes)
            return { segment };
        const near = (one) => address >= one.address && address < one.address + one.bytes;
        return { segment, block: segment.blocks.find(near), hole: segment.holes.find(near) };
    }

    function point(event) {
        const under = hit(event);
        hovered = under?.block ?? null;
        clear(hint);
        if (under?.block)
            hint.append(name(under.block.klass.owner || under.block.klass.place?.name || under.block.klass.category),
                ` ${format.bytes(under.block.bytes)} (${format.exact(under.block.bytes)}) at ${
                    format.address(under.block.address)}${
                    under.block === under.segment.pin ? " · longest-lived in this segment" : ""}`);
        else if (under?.hole)
            hint.append(`free: ${format.bytes(under.hole.bytes)} (${format.exact(under.hole.bytes)}) at ${
                format.address(under.hole.address)}`);
        else if (under)
            hint.append(`${under.segment.klass.kind} of ${format.bytes(under.segment.bytes)} at ${
                format.address(under.segment.address)}, ${format.bytes(under.segment.holeBytes)} free`);
        canvas.redraw();
    }

    function choose(event) {
        const under = hit(event);
        if (under?.block)
            chooseBlock(under.block, under.segment);
        else if (under)
            chooseSegment(under.segment);
    }

    function chooseSegment(segment) {
        table.select(String(segment.address));
        blocks.set(segment.blocks, `Blocks of the segment at ${format.address(segment.address)}`);
        canvas.reveal(rows.indexOf(segment));
        context.announce(`Segment of ${format.bytes(segment.bytes)}, ${format.bytes(segment.holeBytes)} free, ${
            segment.blocks.length} blocks`);
    }

    function chooseBlock(block, segment) {
        if (segment)
            chooseSegment(segment);
        chosen = block.allocation;
        blocks.select(String(block.allocation));
        details.showBlock(block.allocation);
        selectBlock(store, block.allocation);
        canvas.redraw();
    }

    function update(state) {
        const instant = instantOf(state, model);
        if (instant !== at) {
            at = instant;
            found = mapAt(model, at);
            clear(heading).append(h("strong", {}, format.bytes(found.reserved)),
                ` reserved in ${format.count(found.segments.length)} segment${found.segments.length === 1 ? "" : "s"}, ${format.bytes(found.holeBytes)} free, ${
                    momentText(context, at)}`);
            canvas.element.setAttribute(
                "aria-label", visible(`Address map: ${heading.textContent}. The table lists the segments.`));
            table.set(found.segments);
            blocks.set([], "Blocks of the chosen segment");
            grown.show(at);
            arrange();
        }
        chosen = chosenBlock(state, model);
        canvas.redraw();
    }

    return {
        update,
        destroy() {
            canvas.destroy();
            grown.destroy();
        }
    };
}
