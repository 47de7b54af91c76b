// Elements of the page; the parts' own, and one more.
export { h as el, name, visible } from "./parts/dom.js";

// Puts children in the place of all that a node has.
export function clear(node, ...children) {
    node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
    return node;
}
