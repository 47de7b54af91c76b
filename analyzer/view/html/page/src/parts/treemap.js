// A tree of sizes as a treemap or an icicle, made of buttons: reachable by keyboard, readable by a screen
// reader. What is too small to be shown is summed in a tile of its own.
import { hierarchy, treemap, treemapSquarify, partition } from "d3-hierarchy";
import { pick, shortened } from "./tiles.js";
import { eachText } from "./fold.js";
import { around, placeIn } from "./stacks.js";
import { h, clear, colourOf, createCrumbs, onKeys, visible, roving } from "../dom.js";

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
            .paddingOuter((tile) => (tile.depth ? 2 : 0))
            .paddingTop((tile) => (tile.depth ? 20 : 0))(root);
    }
    return root.descendants().filter((tile) => tile.depth);
}

/** options: { context, title(node), sizeOf(node), sign(node): a class instead of the category's colour, shares: whether these are told,
 * chosen(node), hover(node | null), narrowed(): another node is on top, empty }
 * -> { element, crumbs, show(tree, compare), draw(way), top() }. `compare`: differences are shown: 1 = B − A, -1 = A − B, 0 = none. */
export function createTreemap(options) {
    const { format, announce } = options.context, { title: titleOf, sizeOf } = options;
    const box = h("div",
        { class: "vp-tree", role: "group", "aria-label": "Sizes. Arrow keys move, Enter narrows, Backspace widens." });
    const crumbs = createCrumbs("Narrowed to", titleOf, go);
    let tree = null, top = null, way = "treemap", compare = 0;
    roving(box, () => [...box.children]);
    onKeys(box, () => ({ Backspace: () => go(top.parent ?? top) }));
    box.addEventListener("pointerleave", () => options.hover(null));
    if (typeof ResizeObserver !== "undefined")
        new ResizeObserver(() => tree && draw()).observe(box);

    const shareText = (bytes) => (options.shares ? `, ${format.percent(bytes, tree.bytes)}` : "");

    function go(node) {
        top = node;
        draw();
        options.narrowed?.();
        box.querySelector("button")?.focus(); // what was chosen is gone
        announce(visible(`${titleOf(top)}: ${format.bytes(top.bytes)}${shareText(top.bytes)}`));
    }

    function choose(node) {
        options.chosen(node);
        if (node.children?.size)
            go(node);
    }

    function tileOf(tile, i) {
        const { node, rest } = tile.data, width = tile.x1 - tile.x0, height = tile.y1 - tile.y0;
        const title = node ? titleOf(node) : `… ${format.count(rest.length)} more`;
        const bytes = rest ? rest.reduce((sum, one) => sum + one.bytes, 0) : node.bytes;
        const change = node?.change ?? (node && compare ? compare * (node.b - node.bytes) : null);
        const each = node?.count ? eachText(format, node) : "";
        const size = change === null ? each || format.bytes(bytes) : format.change(change);
        const shown = node || tile.data.parent, { category } = shown;
        const text = `${title}, ${each ? `${each}, ` : ""}${format.bytes(bytes)}${shareText(bytes)}${change === null ? "" : `, ${format.change(change)}`}${
            node?.blocks === undefined ? "" : `, ${format.count(node.blocks)} blocks`}`;
        const button = h("button", {
            type: "button",
            class: `vp-tile${tile.children ? " vp-parent" : ""}${rest ? " vp-rest" : ""} ${options.sign?.(shown) ?? ""}`,
            tabindex: i ? "-1" : "0",
            "aria-label": visible(text),
            title: visible(text),
            style: `left:${tile.x0}px;top:${tile.y0}px;width:${Math.max(1, width)}px;height:${Math.max(1, height)}px${
                category ? `;--c:${colourOf(category)};--ink:${colourOf(category, "ink")}` : ""}`,
            onclick: () => choose(shown),
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

    function draw(as = way) {
        way = as;
        crumbs.show(around(top));
        const width = box.clientWidth, height = box.clientHeight, focused = box.contains(document.activeElement);
        clear(box);
        if (!width || !height)
            return;
        box.style.setProperty("--high", `${height}px`); // on paper it is as on the screen: nothing draws it again
        const picked = pick(top, sizeOf, way === "icicle" ? 4 : 3);
        if (!picked.children.length) {
            box.append(h("p", { class: "vp-muted" }, options.empty));
            return;
        }
        box.append(...layout(picked, way, width, height).map((tile, i) => tileOf(tile, i)));
        if (focused)
            box.querySelector("button").focus();
    }
    return {
        element: box,
        crumbs: crumbs.element,
        draw,
        top: () => top,
        show(next, compared = 0) {
            [tree, top, compare] = [next, placeIn(next, top), compared];
            draw();
        },
    };
}
