// Stacks of what is alive as a tree of frames, what a search finds in it, and where each frame is drawn.
import { frameName, isPython, tellingFrames } from "./view.js";
import { made } from "../made.js";

const NONE = { name: "no stack recorded" }, BACKWARD = { name: "its backward pass" };

/** The frames of a class, outermost first. What an operator of the backward pass made stands below its forward stack. */
export function pathOf({ stack, forward }, native) {
    if (!stack.some(isPython) && forward.some(isPython))
        return (native ? [...stack, BACKWARD, ...forward] : [BACKWARD, ...tellingFrames(forward)]).reverse();
    return stack.length ? [...native ? stack : tellingFrames(stack)].reverse() : [NONE];
}

const newNode = (parent, key, frame) =>
    ({ parent, key, frame, name: frame ? frameName(frame) : "all", bytes: 0, blocks: 0, categories: new Map(), children: new Map() });

/** Nodes: { parent, key, frame, name, bytes, blocks, categories: Map, children: Map }. `entries` are those of groups.js. */
export function treeOf(entries, native) {
    const root = newNode(null, "", null);
    for (const { klass, bytes, blocks } of entries) {
        let node = root;
        for (const frame of [null, ...pathOf(klass, native)]) {
            const above = node;
            node = !frame ? root : made(above.children, JSON.stringify([frame.name, frame.function, frame.file, frame.line]),
                (key) => newNode(above, key, frame));
            node.bytes += bytes;
            node.blocks += blocks;
            node.categories.set(klass.category, (node.categories.get(klass.category) ?? 0) + bytes);
        }
    }
    return root;
}

/** What lies in frames that match, each stack once: a frame within one that matches counts in that. */
export function sumOf(node, matches) {
    if (node.frame && matches(node))
        return { bytes: node.bytes, blocks: node.blocks };
    const sums = [...node.children.values()].map((child) => sumOf(child, matches));
    return { bytes: sums.reduce((sum, one) => sum + one.bytes, 0), blocks: sums.reduce((sum, one) => sum + one.blocks, 0) };
}

export const largestFirst = (node) => [...node.children.values()].sort((a, b) => b.bytes - a.bytes || (a.key < b.key ? -1 : 1));

/** From the root to a node. */
export const around = (node) => (node ? [...around(node.parent), node] : []);

/** Boxes { node, rest, x, wide, row }: `top` at full width, what is around it, and all within it; what would be narrower than a pixel is
 * one box of nodes `rest`. */
export function boxesOf(top, width) {
    const boxes = around(top).map((node, row) => ({ node, rest: null, x: 0, wide: width, row })), perByte = width / Math.max(1, top.bytes);
    const put = (parent, left, row) => {
        const nodes = largestFirst(parent), narrow = nodes.findIndex((node) => node.bytes * perByte < 1), rest = narrow < 0 ? [] : nodes.slice(narrow);
        let x = left;
        for (const node of nodes.slice(0, nodes.length - rest.length)) {
            boxes.push({ node, rest: null, x, wide: node.bytes * perByte, row });
            put(node, x, row + 1);
            x += node.bytes * perByte;
        }
        if (rest.length)
            boxes.push({ node: rest[0], rest, x, wide: Math.max(1, rest.reduce((sum, node) => sum + node.bytes, 0) * perByte), row });
    };
    put(top, 0, boxes.length);
    return boxes;
}

/** The same place in another tree, as far as it is there. */
export function placeIn(root, node) {
    let place = root;
    for (const { key } of around(node).slice(1)) {
        if (!place.children?.has(key))
            break;
        place = place.children.get(key);
    }
    return place;
}
