// Which nodes of a tree are shown as tiles.

const SMALLEST = 0.004; // of the whole: what is smaller is summed up

/** What is drawn below a node: {node, value, rest, children}; `rest` = nodes that a tile sums up. Values sum to
 * those of the node, exactly. `sizeOf(node)` is what a node's area shows. */
export function pick(node, sizeOf, depth, whole = sizeOf(node)) {
    const all = [...(node.children?.values() ?? [])].filter((child) => sizeOf(child) > 0).sort((a, b) => sizeOf(b) - sizeOf(a));
    let shown = all.filter((child) => sizeOf(child) >= whole * SMALLEST);
    if (all.length - shown.length === 1)
        shown = all; // a tile for one says less than the one
    const rest = all.slice(shown.length);
    const children = depth > 0 ? shown.map((child) => pick(child, sizeOf, depth - 1, whole)) : [];
    if (depth > 0 && rest.length && shown.length) // else it is a tile of its own
        children.push({
            node: null,
            rest,
            value: rest.reduce((sum, child) => sum + sizeOf(child), 0),
            children: [],
            parent: node
        });
    return { node, rest: null, value: sizeOf(node), children };
}

/** A module's name in a tile of so many letters: names differ at their ends, so "…0.dropout", not "encoder.la…". */
export function shortened(name, letters) {
    const parts = name.split(".");
    if (name.length <= letters || /[^\w.,–…]/.test(name) || parts.length === 1)
        return name;
    let kept = parts.pop();
    while (kept.length + parts.at(-1).length + 2 <= letters)
        kept = `${parts.pop()}.${kept}`;
    return kept.length < letters ? `…${kept}` : kept;
}
