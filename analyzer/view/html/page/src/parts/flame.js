// A flame graph of a moment, or of what was made in the window and is alive at its end. The root is on top.
import { h, clear, createCrumbs, onKeys, toggle, swatch, visible } from "../dom.js";
import { categoryLabel, instantOf, momentText, sourcesOf, wordsOf } from "./view.js";
import { aliveByClass, mostly } from "./groups.js";
import { around, boxesOf, largestFirst, placeIn, sumOf, treeOf } from "./stacks.js";
import { createRows } from "./canvas.js";
import { greatest } from "../greatest.js";

const ROW = 18, LETTER = 6.6; // width of most, in pixels
const LABEL = "Flame graph. Arrow keys move among frames, Enter zooms in, Escape and Backspace zoom out.";

export function create(root, context) {
    const { store, model, format, colours } = context;
    let mode = "moment", native = false, shown = "", query = null, words = [], tree = null, top = null, at = null, laid = { top, width: 0, boxes: [] };

    const heading = h("p", { class: "vp-heading" }), found = h("p", { class: "vp-heading", role: "status" });
    const crumbs = createCrumbs("Zoomed to", (node) => node.name, zoom), hint = h("p", { class: "vp-hover", "aria-hidden": "true" });
    const canvas = createRows(ROW, {
        tabindex: "0", role: "application", "aria-label": LABEL,
        onfocus: () => point(at ?? top), onpointerleave: () => point(null), onclick: (event) => zoom(under(event)?.node),
        onpointermove: (event) => point(under(event)?.node, under(event)?.rest)
    }, {}, draw);
    onKeys(canvas.element, keys);
    const choose = (set) => (value) => {
        set(value);
        update(store.get());
    };
    root.append(h("div", { class: "vp-left vp-flame" },
        h("div", { class: "vp-bar" }, heading, found,
            toggle("What is shown", [["moment", "At A"], ["window", "Made in the window, alive at its end"]], mode, choose((value) => { mode = value; })),
            toggle("Frames", [[false, "Python"], [true, "All frames"]], native, choose((value) => { native = value; }))),
        crumbs.element, canvas.box, hint));

    const matches = (node) => words.every((word) => node.name.toLowerCase().includes(word));
    const depthOf = (node) => around(node).length - 1;

    function under(event) {
        const x = event.clientX - canvas.element.getBoundingClientRect().left, row = canvas.rowAt(event);
        return laid.boxes.find((one) => one.row === row && x >= one.x && x < one.x + one.wide);
    }

    function draw(pen, width, height, from) {
        if (laid.top !== top || laid.width !== width)
            laid = { top, width, boxes: boxesOf(top, width) };
        canvas.rows(greatest(laid.boxes.map(({ row }) => row), 0) + 1);
        pen.font = "11.5px system-ui, sans-serif";
        pen.textBaseline = "middle";
        for (const box of laid.boxes)
            if ((box.row + 1) * ROW > from && box.row * ROW < from + height)
                drawBox(pen, box, box.row * ROW - from);
    }

    function drawBox(pen, { node, rest, x, wide, row }, y) {
        const category = mostly(node.categories), dim = row < depthOf(top) || (words.length && !matches(node));
        pen.fillStyle = !node.frame ? colours.css("--line") : rest ? colours.css("--muted") : colours.of(category);
        pen.globalAlpha = dim ? 0.3 : 1;
        pen.fillRect(x, y, Math.max(1, wide > 3 ? wide - 1 : wide), ROW - 1);
        pen.globalAlpha = 1;
        if (node === at && !rest) {
            pen.strokeStyle = colours.css("--fg");
            pen.lineWidth = 2;
            pen.strokeRect(x + 1, y + 1, Math.max(1, wide - 3), ROW - 3);
        }
        pen.fillStyle = dim || !node.frame ? colours.css("--fg") : colours.ink(category);
        if (wide > 32 && !rest)
            pen.fillText(visible(node.name).slice(0, Math.floor((wide - 4) / LETTER)), x + 4, y + ROW / 2);
    }

    function textOf(node, rest = null) {
        const [bytes, blocks] = ["bytes", "blocks"].map((what) => (rest ?? [node]).reduce((sum, one) => sum + one[what], 0));
        const category = mostly(node.categories), file = node.frame?.file ? ` (${visible(node.frame.file)}:${node.frame.line})` : "";
        return `${rest ? `${format.count(rest.length)} narrow frames` : `${visible(node.name)}${file}`}: ${format.bytes(bytes)} (${format.exact(bytes)}) · ${
            format.percent(bytes, tree.bytes)} · ${format.count(blocks)} block${blocks === 1 ? "" : "s"}${
            rest ? "" : ` · most is ${categoryLabel(model, category)}: ${format.percent(node.categories.get(category), node.bytes)}`}`;
    }

    function point(node, rest) {
        at = node ?? null;
        clear(hint);
        canvas.redraw();
        if (!at || !tree.bytes)
            return;
        const source = !rest && sourcesOf(context.names, node.frame?.file)?.[node.frame.line];
        hint.append(rest || !node.frame ? "" : swatch(mostly(node.categories)), textOf(node, rest), source ? h("code", {}, ` ${visible(source.trim())}`) : "");
    }

    function zoom(node) {
        top = node ?? top;
        drawCrumbs();
        walkTo(top);
    }

    function walkTo(node) {
        point(node);
        context.announce(textOf(node));
        canvas.reveal(depthOf(node));
    }

    function drawCrumbs() {
        const path = around(top);
        crumbs.show([path[0], ...path.slice(1).slice(-3)]);
    }

    /* Down is inwards, as it is drawn. */
    function keys() {
        const node = at ?? top, beside = node.parent ? largestFirst(node.parent) : [node], i = beside.indexOf(node), out = () => zoom(top.parent);
        return {
            ArrowDown: () => walkTo(largestFirst(node)[0] ?? node), ArrowUp: () => walkTo(node.parent ?? node), ArrowLeft: () => walkTo(beside[i - 1] ?? node),
            ArrowRight: () => walkTo(beside[i + 1] ?? node), Home: () => walkTo(tree), Enter: () => zoom(node), Escape: out, Backspace: out
        };
    }

    function update(state) {
        const axis = context.axis(), [lo, hi] = state.zoom.map((x) => axis.changeAt(x)), moment = mode === "moment";
        const [from, to] = moment ? [0, instantOf(state, model)] : [lo + 1, model.gaps.beside(hi, -1)], wanted = `${from} ${to} ${native}`;
        if (wanted === shown && state.filter === query)
            return canvas.redraw();
        if (wanted !== shown) {
            tree = treeOf(aliveByClass(model, to, undefined, from), native);
            top = placeIn(tree, top);
            at = null;
        }
        [shown, query, words] = [wanted, state.filter, wordsOf(state.filter)];
        clear(heading, h("strong", {}, format.bytes(tree.bytes)), moment ? ` in use ${momentText(context, to)}`
            : ` made from ${format.duration(model.timeOf(Math.min(from, to)))} on and alive ${momentText(context, to)}`);
        const sum = words.length ? sumOf(tree, matches) : null;
        found.textContent = sum ? `“${visible(query.trim())}”: ${format.bytes(sum.bytes)} in frames that match, ${format.percent(sum.bytes, tree.bytes)}` : "";
        found.title = sum ? `${format.exact(sum.bytes)} in ${format.count(sum.blocks)} blocks` : "";
        drawCrumbs();
        point(at);
        return undefined;
    }

    update(store.get());
    return { update, destroy: canvas.destroy };
}
