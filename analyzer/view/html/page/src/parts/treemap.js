// A tree of sizes as a treemap or an icicle, made of buttons: reachable by keyboard, readable by a screen
// reader. What is too small to be shown is summed in a tile of its own.
import { hierarchy, treemap, treemapSquarify, partition } from "d3-hierarchy";
import { pick, shortened } from "./tiles.js";
import { eachText } from "./fold.js";
import { h, clear, colourOf, visible, roving } from "../dom.js";

const LETTER = 7; // width of most, in pixels

function layout(picked, way, width, height) {
    const root = hierarchy(picked).sum((tile) => (tile.children.length ? 0 : tile.value));
    if (way === "icicle") {
        partition().size([height, width]).padding(1)(root);
        root.each((tile) => ([tile.x0, tile.x1, tile.y0, tile.y1] = [tile.y0, tile.y1, tile.x0, tile.x1]));
    } else {
        treemap()
            .tile(treemapSquarify)
            .size([width, height])
            .paddingInner(2)
            .paddingTop((tile) => (tile.depth ? 20 : 0))
            .paddingLeft((tile) => (tile.depth ? 2 : 0))
            .paddingRight((tile) => (tile.depth ? 2 : 0))
            .paddingBottom((tile) => (tile.depth ? 2 : 0))(root);
    }
    return root.descendants().filter((tile) => tile.depth);
}

/** options: { format, title(node), sign(node): a class instead of the category's colour, choose(node), hover(node | null), widen(), empty }
 * -> { element, focus(), draw(node, way, { sizeOf, whole, compare }) }. `compare`: differences to B are shown. */
export function createTreemap(options) {
    const { format } = options;
    const box = h("div",
        { class: "vp-tree", role: "group", "aria-label": "Sizes. Arrow keys move, Enter narrows, Backspace widens." });
    let last = null;
    roving(box, () => [...box.children]);
    box.addEventListener("keydown", (event) => {
        if (event.key !== "Backspace")
            return;
        event.preventDefault();
        event.stopPropagation();
        options.widen();
    });
    box.addEventListener("pointerleave", () => options.hover(null));
    if (typeof ResizeObserver !== "undefined")
        new ResizeObserver(() => last && draw(...last)).observe(box);

    function tileOf(tile, i, view) {
        const { node, rest } = tile.data, width = tile.x1 - tile.x0, height = tile.y1 - tile.y0;
        const title = node ? options.title(node) : `… ${format.count(rest.length)} more`;
        const bytes = rest ? rest.reduce((sum, one) => sum + one.bytes, 0) : node.bytes;
        const share = format.percent(bytes, view.whole), change = node?.change ?? (node && view.compare ? node.b - node.bytes : null);
        const each = node?.count ? eachText(format, node) : "";
        const size = change === null ? each || format.bytes(bytes) : format.change(change);
        const shown = node || tile.data.parent, { category } = shown;
        const text = `${title}, ${each ? `${each}, ` : ""}${format.bytes(bytes)}${view.whole ? `, ${share}` : ""}${change === null ? "" : `, ${format.change(change)}`}${
            node?.blocks === undefined ? "" : `, ${format.count(node.blocks)} blocks`}`;
        const button = h("button", {
            type: "button",
            class: `vp-tile${tile.children ? " vp-parent" : ""}${rest ? " vp-rest" : ""} ${options.sign?.(shown) ?? ""}`,
            tabindex: i ? "-1" : "0",
            "aria-label": visible(text),
            title: visible(text),
            style: `left:${tile.x0}px;top:${tile.y0}px;width:${Math.max(1, width)}px;height:${Math.max(1, height)}px${
                category ? `;--c:${colourOf(category)};--ink:${colourOf(category, "ink")}` : ""}`,
            onclick: () => options.choose(shown),
            onpointerenter: () => options.hover(node),
            onfocus: () => options.hover(node),
        });
        if (width <= 34 || height <= 13) {
            button.style.padding = "0"; // which would make it wider than its place
        } else {
            const beside = tile.children || height <= 34, sized = beside ? width > (tile.children ? 130 : 110) : width > 60;
            const room = width - 10 - (beside && sized ? size.length * LETTER : 0);
            button.append(h("bdi", { class: "vp-tilename" }, visible(shortened(title, Math.floor(room / LETTER)))));
            if (height <= 34)
                button.style.flexWrap = "nowrap"; // a second line would be out of sight
            if (sized)
                button.append(h("span", { class: "vp-tilesize" }, size));
        }
        return button;
    }

    function draw(node, way, view) {
        last = [node, way, view];
        const width = box.clientWidth, height = box.clientHeight, focused = box.contains(document.activeElement);
        clear(box);
        if (!width || !height)
            return;
        box.style.setProperty("--high", `${height}px`); // on paper it is as on the screen: nothing draws it again
        const picked = pick(node, view.sizeOf, way === "icicle" ? 4 : 3);
        if (!picked.children.length) {
            box.append(h("p", { class: "vp-muted" }, options.empty));
            return;
        }
        box.append(...layout(picked, way, width, height).map((tile, i) => tileOf(tile, i, view)));
        if (focused)
            box.querySelector("button").focus();
    }
    return {
        element: box,
        draw,
        focus() {
            box.querySelector("button")?.focus();
        },
    };
}
